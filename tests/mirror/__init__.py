"""Does a mirror copy each record once, whatever happens to it?"""
