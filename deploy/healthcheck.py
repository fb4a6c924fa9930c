#!/opt/sfumato/bin/python
"""Ask the server in the same container whether it can answer: exit status 0 if `/ready` says so, 1 otherwise.

The certificate is for the public name, and this connection stays inside the container, so it is not verified.
"""

import http.client
import ssl
import sys

port = int(sys.argv[1])
connection = http.client.HTTPSConnection(
    "127.0.0.1",
    port,
    timeout=5,
    context=ssl._create_unverified_context(),  # noqa: S323 - see above; nothing secret is sent
)
try:
    # The server accepts its own names only; the address that it listens on is one of them.
    connection.request("GET", "/ready", headers={"Host": f"0.0.0.0:{port}"})
    sys.exit(connection.getresponse().status != http.client.OK)
except OSError:
    sys.exit(1)
