// Fetches the page again when the console has something new, and takes over what is marked with
// data-live.  Nothing else depends on it: without this file every page works, and stands still.
(function () {
  "use strict";
  const dot = document.getElementById("dot");
  const tail = document.getElementById("tail");

  // The console answers in time, even if a cluster does not: whoever hears nothing asks anew.
  const PATIENCE_MS = 60000;
  let asking = null;

  // First of all who listen, and for forms that come with a renewed part, too.
  document.addEventListener("submit", (event) => {
    const question = event.target.dataset.confirm;
    if (question && !window.confirm(question)) event.preventDefault();
  }, true);

  // Whoever marks something to copy it, presses a button, or walks with the keyboard, is not
  // disturbed.  What is pressed must be the same when it is let go: else nothing was clicked.
  function isInUse(part) {
    const marked = document.getSelection();
    const isMarked = marked && !marked.isCollapsed && part.contains(marked.anchorNode);
    return isMarked || part.querySelector(":active") !== null;
  }

  function renew(part, other) {
    const stops = () => [...part.querySelectorAll("a, button, input, select, textarea")];
    const held = stops().indexOf(document.activeElement);
    const name = held < 0 ? "" : stops()[held].outerHTML;
    part.innerHTML = other.innerHTML;
    if (held < 0) return;
    const again = stops().find((stop) => stop.outerHTML === name) || stops()[held];
    if (again) again.focus({ preventScroll: true });
  }

  async function fetched() {
    asking = new AbortController();
    const alarm = setTimeout(() => asking.abort(), PATIENCE_MS);
    try {
      const headers = { Accept: "text/html" };
      const answer = await fetch(location.href, { headers, signal: asking.signal });
      return [answer, new DOMParser().parseFromString(await answer.text(), "text/html")];
    } finally {
      clearTimeout(alarm);
    }
  }

  async function refresh() {
    const [answer, fresh] = await fetched();
    if (dot) dot.classList.toggle("on", answer.ok);
    if (!answer.ok) {
      // What is shown stays, and above it why it is not renewed.
      const reason = fresh.querySelector("main .trouble");
      const place = document.getElementById("trouble");
      if (reason && place) place.replaceChildren(document.importNode(reason, true));
      return;
    }
    for (const part of document.querySelectorAll("[data-live]")) {
      const other = fresh.getElementById(part.id);
      if (other && other.innerHTML !== part.innerHTML && !isInUse(part)) renew(part, other);
    }
  }

  if (document.querySelector("[data-live]")) {
    const events = new EventSource("/live");
    // One at a time: where a cluster is slow, they would pile up, and come in another order.
    let isRefreshing = false;
    events.addEventListener("sample", () => {
      if (document.hidden || isRefreshing) return;
      isRefreshing = true;
      refresh()
        .catch(() => dot && dot.classList.remove("on"))
        .finally(() => { isRefreshing = false; });
    });
    events.onopen = () => dot && dot.classList.add("on");
    events.onerror = () => dot && dot.classList.remove("on");
    window.addEventListener("pagehide", () => events.close());
    // A form may delete what this page shows, and its answer is another page: ask no more.
    document.addEventListener("submit", (event) => {
      if (event.defaultPrevented) return;
      events.close();
      if (asking) asking.abort();
    });
  }

  if (tail) {
    const rows = document.querySelector("#records tbody");
    let events = null;
    tail.addEventListener("click", () => {
      if (events) {
        events.close();
        events = null;
        tail.textContent = "Follow";
        return;
      }
      tail.textContent = "Stop following";
      events = new EventSource(tail.dataset.from);
      events.addEventListener("record", (event) => {
        const row = rows.insertRow(0);
        row.innerHTML = JSON.parse(event.data);
        while (rows.rows.length > 500) rows.deleteRow(-1);
      });
      window.addEventListener("pagehide", () => events && events.close());
    });
  }

  // "/" goes to the search field, as in many programs.
  document.addEventListener("keydown", (event) => {
    const field = document.querySelector("input[name=find], input[name=value]");
    if (event.key === "/" && field && !/INPUT|TEXTAREA|SELECT/.test(document.activeElement.tagName)) {
      event.preventDefault();
      field.focus();
    }
  });
})();
