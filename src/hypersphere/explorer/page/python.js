// Questions to Python: a path with its words, as docs/explorer.md lists them. The answer is an object; a mistake is an
// Error with the sentence of Python. Python is a server, or the kernel of a notebook.

const PATIENCE = 120000; // milliseconds

export function serverAt(api) {
  return async (path, options = {}) => {
    let response;
    try {
      response = await fetch(api + path, options);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Error("The server does not answer; is hypersphere explore still running?");
    }
    let tree;
    try {
      tree = await response.json();
    } catch {
      throw new Error("The answer of the server cannot be read.");
    }
    if (!response.ok) throw new Error(tree.error ?? "The server refused.");
    return tree;
  };
}

// model: that of a widget. All views of a widget share its messages, so a question has a name that no other view uses.
export function kernelOf(model) {
  const here = Math.random().toString(36).slice(2, 10), waiting = new Map();
  let asked = 0;
  const take = (message) => {
    const question = waiting.get(message?.question);
    if (!question) return;
    waiting.delete(message.question);
    if ("error" in message) question.fail(new Error(message.error));
    else question.done(message.answer);
  };
  model.on("msg:custom", take);
  return {
    ask: (path, { signal } = {}) => new Promise((done, fail) => {
      const question = `${here}-${++asked}`;
      const leave = (error) => { if (waiting.delete(question)) fail(error); };
      waiting.set(question, { done, fail });
      signal?.addEventListener("abort", () => leave(new DOMException("another question follows", "AbortError")));
      setTimeout(() => leave(new Error("Python has not answered: it is busy with another cell, or the kernel has stopped.")), PATIENCE);
      model.send({ question, path });
    }),
    destroy() { model.off("msg:custom", take); },
  };
}
