"""Hooks of `mkdocs`: add pages that live outside `docs/` and turn links between files into links between pages."""

import posixpath
import re
from pathlib import Path
from typing import Any

from markdown.extensions.toc import slugify
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent
OUTSIDE_DOCS = {
    "ARCHITECTURE.md": "architecture.md",
    "CHANGES.md": "changes.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "README.md": "index.md",
}
"""Files at the root of the repository and the page of the site that shows each."""

SPLIT_PAGES = ("benchmarks", "policy", "refusals", "sql")
"""Folders whose pages were once one page: old links such as `/sql/#joins` lead to the index of the folder."""

_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages at the root and in `proofs/`, and an index of the proofs."""
    for name, page in OUTSIDE_DOCS.items():
        if page not in files.src_uris and (ROOT / name).exists():
            files.append(File.generated(config, page, abs_src_path=str(ROOT / name)))
    proofs = sorted((ROOT / "proofs").glob("*.md"))
    for proof in proofs:
        files.append(File.generated(config, f"proofs/{proof.name}", abs_src_path=str(proof)))
    files.append(File.generated(config, "proofs/index.md", content=_proof_index(proofs)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Point links at pages of the site; a link to a file that the site does not show becomes plain text."""
    source = _repository_path(page.file.src_uri)

    def rewrite(link: re.Match[str]) -> str:
        bang, text, target = link.groups()
        path, _, anchor = target.partition("#")
        if not path or "://" in target or target.startswith("mailto:"):
            return link[0]
        found = _site_path(posixpath.normpath(posixpath.join(posixpath.dirname(source), path)), files)
        if found is None:
            return link[0] if bang else text
        here = posixpath.relpath(found, posixpath.dirname(page.file.src_uri) or ".")
        return f"{bang}[{text}]({here}{'#' + anchor if anchor else ''})"

    folder, _, name = page.file.src_uri.partition("/")
    if folder in SPLIT_PAGES and name == "index.md":
        markdown += _section_index(folder, markdown)
    return _LINK.sub(rewrite, markdown)


def _repository_path(page: str) -> str:
    """Return the path in the repository of a page of the site."""
    root_pages = {page: name for name, page in OUTSIDE_DOCS.items() if name != "README.md"}
    return root_pages.get(page, page if page.startswith("proofs/") else f"docs/{page}")


def _site_path(path: str, files: Files) -> str | None:
    """Return the page or asset of the site that shows a file of the repository, or None."""
    if path in OUTSIDE_DOCS:
        return OUTSIDE_DOCS[path]
    if path.rstrip("/") == "proofs":
        return "proofs/index.md"
    if path.rstrip("/") == "docs":
        return "index.md"
    page = path.removeprefix("docs/")
    return page if page in files.src_uris else None


def _section_index(folder: str, index: str) -> str:
    """Return a list of the sections of a folder. Each link has the anchor of its section, so old addresses find it."""
    taken = {anchor for _, anchor in _sections(index)}
    lines = ["", "## All sections", ""]
    for path in sorted((ROOT / "docs" / folder).glob("*.md")):
        if path.name == "index.md":
            continue
        links = []
        for text, anchor in _sections(path.read_text(encoding="utf-8")):
            mark = "" if anchor in taken else f"{{ #{anchor} }}"
            taken.add(anchor)
            links.append(f"[{text}]({path.name}#{anchor}){mark}")
        lines.append(f"- {links[0]}" + (f": {', '.join(links[1:])}" if links[1:] else ""))
    return "\n".join(lines) + "\n"


def _sections(markdown: str) -> list[tuple[str, str]]:
    """Return the title and every heading of a page as plain text with its anchor; code blocks have none."""
    prose = re.sub(r"(?ms)^```.*?^```", "", markdown)
    texts = [re.sub(r"[`*]", "", heading) for heading in re.findall(r"(?m)^#+ (.+)$", prose)]
    return [(text, slugify(text, "-")) for text in texts]


def _proof_index(proofs: list[Path]) -> str:
    """Return a page that lists every proof by its title and the first sentence of its claim."""
    lines = ["# Proofs", "", "One page per theorem: claim, assumptions, proof, and the code that relies on it.", ""]
    for proof in proofs:
        text = proof.read_text(encoding="utf-8")
        title = re.search(r"(?m)^# (.+)$", text)
        lines.append(f"- [{title[1] if title else proof.stem}]({proof.name})")
    return "\n".join(lines) + "\n"
