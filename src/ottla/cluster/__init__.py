"""What the cluster consists of, and who may change it.

Start with `image`: brokers, topics and settings as one immutable value.  `changes` are the only
way to the next image.  `controller` decides on requests (with `topics`, `placement` and `configs`,
which are pure), writes what it decided through a `store`, and then applies the changes.  `layout`
says how an image lies in the store.
"""
