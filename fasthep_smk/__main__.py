"""``python -m fasthep_smk``: the same as the ``fasthep-smk`` command."""

from __future__ import annotations

import sys

from fasthep_smk.cli.main import main

sys.exit(main())
