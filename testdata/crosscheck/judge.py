#!/usr/bin/env python3
"""Answers the questions of "arl conformance verifier" with the verifier of api/python.

The signatures are those of arithmetic.py: the program uses nothing but the standard library.
"""

import arithmetic  # noqa: F401: before the package
from recoveryledger.verify import judge

judge.main()
