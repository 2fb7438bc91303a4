"""``dpsql shell``: SQL at a prompt, with the budget in sight.

``loop`` is the shell of a terminal, ``script`` that of files and pipes; both run what is typed by
``script``'s rules on a ``state.Shell``. Only ``editor`` needs prompt_toolkit.
"""
