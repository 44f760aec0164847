"""The web console: what a cluster does, in a browser.

It is a client like any other, so it works against Apache Kafka as well, and the broker's loop stays
free.  Start with `app`, which puts the parts together:

    app        routes; what lives as long as the console
    pages/     one module for each subject: reads the request, asks the cluster, fills a template
    sampling   asks the cluster again and again, once for all who look
    history    the samples of the last minutes: rates, lines (pure)
    charts     lines, sparklines and timelines as SVG (pure)
    payloads   bytes -> text, JSON or hex; which records somebody looks for (pure)
    words      numbers, sizes and times as people read them (pure)
    guard      who may come in, and who may change something
    live       tells browsers that there is something new

Every view is a link: what is shown is in the address, nothing is in the browser.  Pages work
without JavaScript; `static/live.js` only fetches a page again when there is something new.
"""
