# SPDX-License-Identifier: Apache-2.0
"""Instrumentations of agent frameworks; each is a module of its own beside this one."""
