# SPDX-License-Identifier: Apache-2.0
"""The filter language: one meaning, whatever is asked."""
