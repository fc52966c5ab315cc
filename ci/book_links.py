#!/usr/bin/env python3
"""A preprocessor of mdBook: makes links out of docs/ lead to the repository.

mdBook calls it with `supports RENDERER`, then gives `[context, book]` on standard input.
"""
import json
import re
import sys

if sys.argv[1:2] == ["supports"]:
    sys.exit(0)

context, book = json.load(sys.stdin)
address = context["config"]["output"]["html"].get("git-repository-url") or ".."


def change(items):
    for item in items:
        if not isinstance(item, dict) or "Chapter" not in item:
            continue
        chapter = item["Chapter"]
        chapter["content"] = re.sub(
            r"\]\(\.\./([^)\s]*)\)",
            lambda found: f"]({address}/blob/HEAD/{found[1]})",
            chapter["content"],
        )
        change(chapter["sub_items"])


change(book.get("items", book.get("sections", [])))
json.dump(book, sys.stdout)
