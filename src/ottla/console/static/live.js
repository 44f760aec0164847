// Fetches the page again when the console has something new, and takes over what is marked with
// data-live.  Nothing else depends on it: without this file every page works, and stands still.
(function () {
  "use strict";
  const dot = document.getElementById("dot");
  const tail = document.getElementById("tail");

  const leaving = new AbortController();

  // First of all who listen, and for forms that come with a renewed part, too.
  document.addEventListener("submit", (event) => {
    const question = event.target.dataset.confirm;
    if (question && !window.confirm(question)) event.preventDefault();
  }, true);

  // Whoever marks something to copy it, or walks with the keyboard, is not disturbed.
  function isMarked(part) {
    const marked = document.getSelection();
    return marked && !marked.isCollapsed && part.contains(marked.anchorNode);
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

  async function refresh() {
    const answer = await fetch(location.href, {
      headers: { Accept: "text/html" },
      signal: leaving.signal,
    });
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
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
      if (other && other.innerHTML !== part.innerHTML && !isMarked(part)) renew(part, other);
    }
  }

  if (document.querySelector("[data-live]")) {
    const events = new EventSource("/live");
    // One at a time: where a cluster is slow, they would pile up, and come in another order.
    let isRefreshing = false;
    events.addEventListener("sample", () => {
      if (document.hidden || isRefreshing) return;
      isRefreshing = true;
      refresh().catch(() => {}).finally(() => { isRefreshing = false; });
    });
    events.onopen = () => dot && dot.classList.add("on");
    events.onerror = () => dot && dot.classList.remove("on");
    window.addEventListener("pagehide", () => events.close());
    // A form may delete what this page shows, and its answer is another page: ask no more.
    document.addEventListener("submit", (event) => {
      if (event.defaultPrevented) return;
      events.close();
      leaving.abort();
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
