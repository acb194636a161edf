// SPDX-License-Identifier: Apache-2.0
// Opens the span that the address names. The page works without it.
"use strict";
function openTarget() {
  const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
  const details = target && target.querySelector("details");
  if (details) {
    details.open = true;
    details.querySelector("summary").focus({preventScroll: true});
  }
}
addEventListener("hashchange", openTarget);
openTarget();
