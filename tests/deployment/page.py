"""Run the commands of docs/production.md one after another: `python -m tests.deployment.page` (a minute, network).

A folder stands for the root of the machine. Commands that change the machine's users are left out, `sudo` runs what
follows it, and `systemctl` starts and stops what the unit names, as systemd would.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.deployment.environments import REPOSITORY

PAGE = REPOSITORY / "docs" / "production.md"
MACHINE = """
set -eu
sudo() { if [ "$1" = -u ]; then shift 2; fi; "$@"; }
useradd() { :; }
chown() { :; }
install() {
  words=
  while [ $# -gt 0 ]; do
    case $1 in -o | -g) shift 2 ;; *) words="$words $1"; shift ;; esac
  done
  command install -D $words 2> /dev/null || command install $words
}
systemctl() {
  case $1 in
    restart)
      kill -TERM "$(cat ROOT/pid)"
      while kill -0 "$(cat ROOT/pid)" 2> /dev/null; do sleep 0.1; done ;;
  esac
  case $1 in
    enable | restart)
      sed -n 's/^ExecStart=//p' ROOT/etc/systemd/system/sfumato@.service > ROOT/command
      sed -i 's#%i#clinic#g; s#/opt/#ROOT/opt/#g; s#/etc/#ROOT/etc/#g; s#/var/#ROOT/var/#g' ROOT/command
      sh -c 'exec $(cat ROOT/command)' > ROOT/log 2>&1 &
      echo $! > ROOT/pid ;;
  esac
}
mkdir -p ROOT/etc/systemd/system ROOT/var/lib build
trap 'kill -TERM "$(cat ROOT/pid)" 2> /dev/null || true' EXIT
"""


def blocks() -> list[str]:
    """Return the commands of the page that are run."""
    return re.findall(r"(?ms)^```bash\n(.*?)^```$", PAGE.read_text(encoding="utf-8"))


def script(root: Path) -> str:
    """Return the page as one script, with absolute paths below `root`."""
    text = "\n".join(blocks())
    text = re.sub(r"(?<![\w./])(?=/(opt|etc|var)/)", str(root), text)
    return MACHINE.replace("ROOT", str(root)) + "set -v\n" + text


def main() -> None:
    """Run the page in a copy of the source."""
    with tempfile.TemporaryDirectory(prefix="sfumato-page-") as folder:
        root, source = Path(folder) / "root", Path(folder) / "source"
        root.mkdir()
        tracked = subprocess.run(["git", "ls-files"], cwd=REPOSITORY, check=True, capture_output=True, text=True).stdout
        for name in tracked.splitlines():
            if name.startswith(("deploy/", "src/", "pyproject", "README", "LICENSE")):
                (source / name).parent.mkdir(parents=True, exist_ok=True)
                (source / name).write_bytes((REPOSITORY / name).read_bytes())
        file = Path(folder) / "page.sh"
        file.write_text(script(root), encoding="utf-8")
        done = subprocess.run(["sh", file], cwd=source, check=False, env={**os.environ, "LANG": "C.UTF-8"})
        sys.exit(done.returncode)


if __name__ == "__main__":
    main()
