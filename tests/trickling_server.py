"""A server that answers the question whether it lives, then one byte at a time for ever."""

import http.server
import threading
from contextlib import contextmanager

_PAUSE = 0.2


class _Trickle(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path == "/health" and self.server.lives:
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"OK")
            return
        self._trickle()

    def do_POST(self):
        self._trickle()

    def _trickle(self):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "1000000")
        self.end_headers()
        try:
            while not self.server.over.wait(_PAUSE):
                self.wfile.write(b" ")
                self.wfile.flush()
        except OSError:
            pass  # whoever asked has gone

    def log_message(self, *_):
        pass


@contextmanager
def trickling_server(*, lives):
    """Yield its address; `lives`: the question for its health is answered at once."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Trickle)
    server.daemon_threads = True
    server.lives, server.over = lives, threading.Event()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.over.set()
        server.shutdown()
        server.server_close()
