# SPDX-License-Identifier: Apache-2.0
"""One offline rig for each framework: a scripted model turn that asks for one tool call."""
