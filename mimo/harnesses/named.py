"""The mini-harnesses that have a name: those to train with, and those kept for evaluation."""

from __future__ import annotations

from mimo.harnesses.composed import Composition

BASH_TERSE = Composition.of("terse+bash+shell+keep-all", called="bash-terse")
JSON_TERSE = Composition.of("terse+json+shell+keep-all", called="json-terse")
XML_FILES = Composition.of("terse+xml+files+keep-all", called="xml-files")
JSON_FILES_RECENT = Composition.of("guided+json+files+recent", called="json-files-recent")
JSON_LINES = Composition.of("terse+json+lines+keep-all", called="json-lines")

BASH_GUIDED_RECENT = Composition.of("guided+bash+shell+recent", called="bash-guided-recent")
XML_PLAN = Composition.of("plan+xml+shell+keep-all", called="xml-plan")
