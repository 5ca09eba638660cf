"""Tests of the whole: crawls of the synthetic web by the measurements of `bench/`, which stands at the root.

The root comes last on the import path: its folders `avro`, `state` ... must not hide other packages of these names.
"""

import sys

from house.source import ROOT

if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))
