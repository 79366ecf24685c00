"""A real browser loads a page of 60 images 20 times while idle connections end after 50 ms: every image is there."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.servers._kept import Server, kept

pytestmark = [pytest.mark.server, pytest.mark.apache]
TIME_MS, IMAGES, LOADS = 50, 60, 20
PATIENCE_S = 120.0
IMAGE = '<svg xmlns="http://www.w3.org/2000/svg" width="8" height="8"><path d="M0 0h8v8H0z"/><!--{}--></svg>'
ALBUM = """<!doctype html><title>album</title><body><script>
// Images begin up to 120 ms after one another, so that connections are idle for less than the time and for more.
const load = new URLSearchParams(location.search).get("load");
let whole = 0, failed = 0;
const seen = (image) => {
  if (image.naturalWidth === 8) { whole += 1; } else { failed += 1; }
  if (whole + failed === IMAGES) { parent.postMessage({whole, failed}, "*"); }
};
for (let number = 0; number < IMAGES; number += 1) {
  setTimeout(() => {
    const image = new Image();
    image.onload = () => seen(image);
    image.onerror = () => seen(image);
    image.src = `/image-${number}.svg?load=${load}`;
    document.body.append(image);
  }, number < 20 ? 0 : Math.random() * 120);
}
</script>"""
VIEWER = """<!doctype html><title>viewer</title><body><iframe></iframe><script>
const frame = document.querySelector("iframe");
let loads = 0, whole = 0, failed = 0;
const next = () => { frame.src = `/album.html?load=${loads}`; };
addEventListener("message", ({data}) => {
  loads += 1; whole += data.whole; failed += data.failed;
  const report = encodeURIComponent(JSON.stringify({loads, whole, failed}));
  fetch(`http://127.0.0.1:PORT/${report}`, {mode: "no-cors"});
  if (loads < LOADS) { setTimeout(next, Math.random() * 100); }
});
next();
</script>"""
ALONE = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--mute-audio"),
    *("--disable-background-networking", "--disable-component-update", "--disable-default-apps", "--disable-sync"),
    *("--disable-extensions", "--no-proxy-server", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
)
"""Without a screen, and without a word to anybody but this machine."""


@contextlib.contextmanager
def told() -> Iterator[tuple[int, queue.Queue[dict[str, int]]]]:
    """A port at which the browser says what it has seen, and where that can be read."""
    said: queue.Queue[dict[str, int]] = queue.Queue()

    class Ear(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            said.put(json.loads(unquote(urlsplit(self.path).path[1:])))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    with ThreadingHTTPServer(("127.0.0.1", 0), Ear) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server.server_port, said
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def browser(url: str) -> Iterator[None]:
    """Chromium with a profile of its own at this page."""
    program = shutil.which("chromium")
    assert program is not None, "chromium is not installed"
    with tempfile.TemporaryDirectory(prefix="trimtab-browser-", ignore_cleanup_errors=True) as profile:
        command = [program, *ALONE, f"--user-data-dir={profile}", url]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def seen_by_one(page: str, said: queue.Queue[dict[str, int]]) -> dict[str, int]:
    """What a browser says after its last load, or after the last that came; queue.Empty where it says nothing."""
    with browser(page):
        report = said.get(timeout=PATIENCE_S)
        while report["loads"] < LOADS:
            try:
                report = said.get(timeout=PATIENCE_S)
            except queue.Empty:
                break
    return report


def write(documents: Path, port: int) -> None:
    """The pages and the images."""
    for number in range(IMAGES):
        (documents / f"image-{number}.svg").write_text(IMAGE.format(number))
    (documents / "album.html").write_text(ALBUM.replace("IMAGES", str(IMAGES)))
    (documents / "viewer.html").write_text(VIEWER.replace("LOADS", str(LOADS)).replace("PORT", str(port)))
    for file in documents.iterdir():
        os.chmod(file, 0o644)


@pytest.mark.parametrize("server", ["prefork", "event"])
def test_no_image_of_a_browser_fails(server: Server) -> None:
    with kept(server) as bed, told() as (port, said):
        write(bed.documents, port)
        bed.keep(TIME_MS)
        page = f"http://127.0.0.1:{bed.port}/viewer.html"
        try:
            report = seen_by_one(page, said)
        except queue.Empty:  # one that has not shown anything at all says nothing of the server
            report = seen_by_one(page, said)
        idle = bed.idle()
        print(f"{server}: {report}, {idle}")
        assert report == {"loads": LOADS, "whole": LOADS * IMAGES, "failed": 0}
        assert idle.cut > LOADS and idle.intervals > LOADS, "hardly a connection was idle"
