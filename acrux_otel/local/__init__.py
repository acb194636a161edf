# SPDX-License-Identifier: Apache-2.0
"""The embedded default: an OTLP receiver, a store in one SQLite file, and a page. Extra ``[local]``."""
