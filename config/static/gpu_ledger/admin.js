// htmx would add a style element of its own, which Content-Security-Policy refuses.
htmx.config.includeIndicatorStyles = false;
htmx.config.allowEval = false;

// The text of charts has the colour of the page's text, in light and dark.
const ink = () => getComputedStyle(document.body).color;

function inkCharts() {
  Chart.defaults.color = ink();
  for (const chart of Object.values(Chart.instances)) {
    for (const scale of Object.values(chart.options.scales || {})) {
      if (scale.ticks) scale.ticks.color = ink();
    }
    if (chart.options.plugins?.legend?.labels) chart.options.plugins.legend.labels.color = ink();
    chart.update("none");
  }
}

// Select2 draws a combobox with a text box beside each select, and gives neither a name.
const BOXES = ".select2-selection:not([aria-label]), .select2-selection__rendered:not([aria-label])";

function nameComboboxes() {
  for (const box of document.querySelectorAll(BOXES)) {
    const select = box.closest(".select2")?.previousElementSibling;
    const label = select?.id && document.querySelector(`label[for="${CSS.escape(select.id)}"]`);
    const name = label ? label.textContent : select?.getAttribute("aria-label");
    if (name) box.setAttribute("aria-label", name.replace(/[\s:*]+$/, "").trim());
  }
}

document.addEventListener("focusin", ({target}) => {
  if (target.matches(".select2-search__field:not([aria-label])")) {
    target.setAttribute("aria-label", "Search");
  }
});

document.addEventListener("DOMContentLoaded", () => { Chart.defaults.color = ink(); });

window.addEventListener("load", () => {
  nameComboboxes();
  new MutationObserver(nameComboboxes).observe(document.body, {childList: true, subtree: true});
  inkCharts();
  new MutationObserver(inkCharts).observe(document.documentElement, {attributeFilter: ["class"]});
});
