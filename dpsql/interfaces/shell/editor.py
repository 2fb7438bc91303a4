"""The line editor: prompt_toolkit with highlighting, completion, history and a toolbar."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import Lexer, PygmentsLexer
from prompt_toolkit.shortcuts import CompleteStyle
from prompt_toolkit.styles import Style
from pygments.lexers.sql import PostgresLexer

from dpsql.interfaces.shell.candidates import Known
from dpsql.interfaces.shell.completion import candidates
from dpsql.interfaces.shell.splitter import finished

# Colours of the terminal's own palette, which its user has chosen to be readable.
_STYLE: Final = Style.from_dict(
    {
        "pygments.keyword": "ansiblue bold",
        "pygments.name.builtin": "ansiblue",
        "pygments.literal.string": "ansigreen",
        "pygments.literal.number": "ansimagenta",
        "pygments.comment": "ansibrightblack italic",
        "command": "ansicyan bold",
        "prompt": "bold",
        "much": "ansigreen",
        "some": "ansiyellow",
        "little": "ansired bold",
        "bottom-toolbar": "noreverse ansibrightblack",
    }
)


class Editor:
    """Reads what a person types.

    ``toolbar`` says what stands below, ``known`` what to suggest, and ``typing`` whether to do so
    while somebody types.
    """

    def __init__(
        self,
        known: Callable[[], Known],
        toolbar: Callable[[], str],
        typing: Callable[[], bool],
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._session: PromptSession[str] = PromptSession(
            history=_history(environment),
            lexer=_ShellLexer(),
            completer=_ShellCompleter(known),
            complete_while_typing=Condition(typing),
            complete_style=CompleteStyle.MULTI_COLUMN,
            auto_suggest=AutoSuggestFromHistory(),
            search_ignore_case=True,
            key_bindings=_keys(),
            # What is searched for with Ctrl-R has a buffer of its own: it is no statement.
            multiline=Condition(lambda: not finished(self._session.default_buffer.text)),
            bottom_toolbar=toolbar,
            reserve_space_for_menu=6,
            style=_STYLE,
        )
        self._edited: str | None = None
        self._answers: PromptSession[str] = PromptSession(history=InMemoryHistory())

    def read(self, prompt: Sequence[tuple[str, str]]) -> str:
        """Read a typed text. Raises ``KeyboardInterrupt`` for Ctrl-C, ``EOFError`` for Ctrl-D."""
        width = sum(len(part[1]) for part in prompt)

        def continuation(room: int, line: int, wrapped: int) -> StyleAndTextTuples:
            return [("class:prompt", f"{'' if wrapped else '... ':>{width}}")]

        begun, self._edited = self._edited, None
        return self._session.prompt(
            [*prompt],
            prompt_continuation=continuation,
            default=begun or "",
            pre_run=None if begun is None else self._open,
        )

    def edit(self, text: str) -> None:
        """Have the next prompt begin with a text that is opened in ``$EDITOR``."""
        self._edited = text

    def _open(self) -> None:
        self._session.default_buffer.open_in_editor(validate_and_handle=False)

    def agree(self) -> bool:
        """Ask for a y, which agrees; Ctrl-C and Ctrl-D mean no, anything else is asked again."""
        while True:
            try:
                given = self._answers.prompt("Run it? [y/N] ").strip().lower()
            except (KeyboardInterrupt, EOFError):
                return False
            if given in ("y", "yes"):
                return True
            if given in ("", "n", "no"):
                return False


def history_file(environment: Mapping[str, str]) -> Path:
    """Return where statements are remembered: below XDG_STATE_HOME."""
    state = environment.get("XDG_STATE_HOME", "")
    base = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    return base / "dpsql" / "shell_history"


def _history(environment: Mapping[str, str]) -> History:
    """Open earlier shells' history, for its owner's eyes; this one's where it cannot be kept."""
    path = history_file(environment)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            os.fchmod(descriptor, 0o600)
        finally:
            os.close(descriptor)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))


def _keys() -> KeyBindings:
    """Bind Ctrl-X Ctrl-E to ``$EDITOR``, which leaves its text at the prompt.

    prompt_toolkit's own binding runs what the editor leaves, also where nothing was changed: a
    person who leaves without saving would have paid for it.
    """
    keys = KeyBindings()

    @keys.add("c-x", "c-e")
    def _edit(event: KeyPressEvent) -> None:
        event.current_buffer.open_in_editor(validate_and_handle=False)

    return keys


class _ShellLexer(Lexer):
    """SQL, or a command whose name stands out."""

    def __init__(self) -> None:
        self._sql = PygmentsLexer(PostgresLexer)

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        sql = self._sql.lex_document(document)

        def line(number: int) -> StyleAndTextTuples:
            text = document.lines[number]
            if not text.lstrip().startswith("\\"):
                return sql(number)
            name, blank, argument = text.partition(" ")
            return [("class:command", name), ("", blank + argument)]

        return line


class _ShellCompleter(Completer):
    def __init__(self, known: Callable[[], Known]) -> None:
        self._known = known

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        after = document.text_after_cursor
        for found in candidates(document.text_before_cursor, after, self._known()):
            yield Completion(str(found.text), -found.length, display_meta=found.note)
