// Draws a scene of lines and dots: with WebGL2, or plainly in two dimensions where it is missing.
// The unit circle fills the canvas up to a rim.

const RIM = 0.94;

const VERTEX = `#version 300 es
in vec2 place; in vec4 colour; in vec2 shape; // shape: width in pixels, 1 for a ring
out vec4 tint; out vec2 form;
void main() { gl_Position = vec4(place * ${RIM}, 0.0, 1.0); gl_PointSize = shape.x; tint = colour; form = shape; }`;

const FRAGMENT = `#version 300 es
precision mediump float;
in vec4 tint; in vec2 form; out vec4 painted;
uniform bool round;
void main() {
  float cover = 1.0;
  if (round) {
    float from = length(gl_PointCoord - 0.5) * form.x, edge = form.x * 0.5 - 0.5;
    cover = 1.0 - smoothstep(edge - 1.0, edge, from);
    if (form.y > 0.5) cover *= smoothstep(edge - 3.2, edge - 2.2, from);
  }
  painted = vec4(tint.rgb * tint.a * cover, tint.a * cover);
}`;

export function createPainter(canvas) {
  const gl = canvas.getContext("webgl2", { antialias: true, premultipliedAlpha: true });
  return gl ? webglPainter(canvas, gl) : plainPainter(canvas);
}

function resize(canvas, wide, ratio) {
  const size = Math.round(wide * ratio);
  if (canvas.width !== size) canvas.width = canvas.height = size;
  return size;
}

function webglPainter(canvas, gl) {
  const program = gl.createProgram();
  for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    gl.attachShader(program, shader);
  }
  gl.linkProgram(program);
  gl.useProgram(program);
  gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
  [["place", 2, 0], ["colour", 4, 8], ["shape", 2, 24]].forEach(([name, size, offset]) => {
    const at = gl.getAttribLocation(program, name);
    gl.enableVertexAttribArray(at);
    gl.vertexAttribPointer(at, size, gl.FLOAT, false, 32, offset);
  });
  gl.enable(gl.BLEND);
  gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
  const round = gl.getUniformLocation(program, "round");
  let vertices = new Float32Array(0), used = 0; // eight numbers each: place, colour, shape
  function vertex(a, b, [red, green, blue], alpha, width, ring) {
    vertices[used++] = a; vertices[used++] = b;
    vertices[used++] = red; vertices[used++] = green; vertices[used++] = blue; vertices[used++] = alpha;
    vertices[used++] = width; vertices[used++] = ring;
  }
  return {
    fallback: false,
    paint({ lines, dots }, wide, ratio) {
      const size = resize(canvas, wide, ratio), needed = 8 * (2 * lines.length + dots.length);
      if (vertices.length < needed) vertices = new Float32Array(needed);
      used = 0;
      for (const [a, b, c, d, colour, alpha] of lines) {
        vertex(a, b, colour, alpha, 1, 0);
        vertex(c, d, colour, alpha, 1, 0);
      }
      for (const [a, b, width, ring, colour, alpha] of dots) vertex(a, b, colour, alpha, (width * size) / 2, ring);
      gl.viewport(0, 0, size, size);
      gl.clear(gl.COLOR_BUFFER_BIT);
      gl.bufferData(gl.ARRAY_BUFFER, vertices.subarray(0, used), gl.DYNAMIC_DRAW);
      gl.uniform1i(round, 0);
      gl.drawArrays(gl.LINES, 0, 2 * lines.length);
      gl.uniform1i(round, 1);
      gl.drawArrays(gl.POINTS, 2 * lines.length, dots.length);
    },
    destroy() { gl.getExtension("WEBGL_lose_context")?.loseContext(); },
  };
}

function plainPainter(canvas) {
  const drawing = canvas.getContext("2d");
  const css = ([r, g, b], alpha) => `rgba(${Math.round(255 * r)},${Math.round(255 * g)},${Math.round(255 * b)},${alpha})`;
  return {
    fallback: true,
    paint({ lines, dots }, wide, ratio) {
      const size = resize(canvas, wide, ratio), x = (a) => (size / 2) * (1 + RIM * a), y = (b) => (size / 2) * (1 - RIM * b);
      drawing.clearRect(0, 0, size, size);
      for (const [a, b, c, d, colour, alpha] of lines) {
        drawing.strokeStyle = css(colour, alpha);
        drawing.beginPath();
        drawing.moveTo(x(a), y(b));
        drawing.lineTo(x(c), y(d));
        drawing.stroke();
      }
      for (const [a, b, width, ring, colour, alpha] of dots) {
        drawing.beginPath();
        drawing.arc(x(a), y(b), (width * size) / 4, 0, 2 * Math.PI);
        if (ring) {
          drawing.strokeStyle = css(colour, alpha);
          drawing.lineWidth = 1.6 * ratio;
          drawing.stroke();
          drawing.lineWidth = 1;
        } else {
          drawing.fillStyle = css(colour, alpha);
          drawing.fill();
        }
      }
    },
    destroy() {},
  };
}
