// Swagger UI puts links into buttons, leaves out a level of headings, and names no part of its page.
const MENDED = {
  ".opblock-summary-control a[href]": (link) => link.removeAttribute("href"),
  "h3.opblock-tag:not([aria-level])": (heading) => heading.setAttribute("aria-level", "2"),
  ".information-container:not([role])": (part) => nameRegion(part, "About"),
  ".scheme-container:not([role])": (part) => nameRegion(part, "Sign in"),
  ".filter-container:not([role])": (part) => nameRegion(part, "Search"),
};
let isWaiting = false;

function nameRegion(part, name) {
  part.setAttribute("role", "region");
  part.setAttribute("aria-label", name);
}

function mend() {
  isWaiting = false;
  for (const [found, change] of Object.entries(MENDED)) {
    document.querySelectorAll(found).forEach(change);
  }
}

new MutationObserver(() => {
  if (!isWaiting) requestAnimationFrame(mend);
  isWaiting = true;
}).observe(document.getElementById("swagger-ui"), {childList: true, subtree: true});
