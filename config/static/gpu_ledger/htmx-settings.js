// htmx would add a style element of its own, which Content-Security-Policy refuses.
htmx.config.includeIndicatorStyles = false;
htmx.config.allowEval = false;
