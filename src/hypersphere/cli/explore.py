"""``hypersphere explore``: the page in a browser, or written into a folder."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Annotated

import typer

from hypersphere.cli.answers import fail, need_folder
from hypersphere.cli.signals import terminable
from hypersphere.cli.starting import nothing_begun
from hypersphere.diagnostics.files import RUN_FILE, SUFFIXES
from hypersphere.messages import first_line

PORT = 8765


def explore(
    runs: Annotated[Path | None, typer.Option("--runs", metavar="DIR", help="Folder of runs, or one run.")] = None,
    studies: Annotated[
        Path | None, typer.Option("--studies", metavar="DIR", help="Folder of studies of hypersphere compare.")
    ] = None,
    embeddings: Annotated[
        Path | None, typer.Option("--embeddings", metavar="FILE", help="Embeddings to examine, or a run.")
    ] = None,
    results: Annotated[
        Path | None, typer.Option("--results", metavar="DIR", help="Folder that hypersphere reproduce has written.")
    ] = None,
    port: Annotated[
        int, typer.Option("--port", metavar="N", min=0, max=65535, help="If it is in use, the next free one; 0: any.")
    ] = PORT,
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="Address to listen on; others than this computer's own "
                          "let anyone on the network in.")
    ] = "127.0.0.1",
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address and open nothing.")] = False,
    export: Annotated[
        Path | None, typer.Option("--export", metavar="DIR", help="Write the page into a folder, and stop.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the address as JSON, for machines.")] = False,
) -> None:  # fmt: skip
    """Look at objectives, embeddings and runs in the browser.

    It also shows studies and papers. The page needs nothing from the network. Its server answers this computer alone,
    reads only the folders it was given, and stops with Ctrl-C.
    """
    for name, folder in (("runs", runs), ("studies", studies), ("results", results)):
        if folder is not None and not folder.is_dir():
            fail(f"there is no folder {folder} (--{name}).")
    if embeddings is not None:
        _check_embeddings(embeddings)
    with nothing_begun():
        from hypersphere.explorer.export import export_page
        from hypersphere.explorer.papers import shipped_results
        from hypersphere.explorer.server import start_server
    results = results or shipped_results()
    if export is not None:
        if export.exists() and not export.is_dir():
            fail(f"--export is a folder, but {export} is a file.")
        need_folder(export)
        page = export_page(export, results)
        typer.echo(json.dumps({"page": str(page)}) if as_json else f"page: {page}")
        return
    try:
        server = start_server(host, port, folders={"runs": runs, "studies": studies}, given=embeddings, results=results)
    except (OSError, OverflowError) as error:
        fail(f"{first_line(error).rstrip('.')}.")
    taken = int(server.server_address[1])
    if as_json:
        typer.echo(json.dumps({"url": server.url, "port": taken}))
    else:
        if port not in (0, taken):
            typer.echo(f"Port {port} is in use; this is port {taken}.")
        typer.echo(f"The explorer is at {server.url} (Ctrl-C stops it).")
    if not no_browser:
        threading.Thread(target=_open, args=(server.url,), daemon=True).start()
    with terminable():
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            typer.echo("", err=True)
        finally:
            server.close()


def _check_embeddings(path: Path) -> None:
    if path.is_dir():
        if not (path / RUN_FILE).is_file():
            fail(f"{path} is a folder without {RUN_FILE}; --embeddings is a file or a run.")
    elif not path.is_file():
        fail(f"there is no file {path} (--embeddings).")
    elif path.suffix not in SUFFIXES:
        fail(f"embeddings come as {', '.join(SUFFIXES)}, not as {path.name}.")


def _open(url: str) -> None:
    import webbrowser

    webbrowser.open(url)
