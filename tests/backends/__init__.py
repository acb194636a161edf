# SPDX-License-Identifier: Apache-2.0
"""Tests against the real Jaeger and the real collector, which `make backends` builds."""
