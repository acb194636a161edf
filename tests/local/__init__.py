# SPDX-License-Identifier: Apache-2.0
"""The embedded receiver, store and page, as a process of its own wherever a user's is."""
