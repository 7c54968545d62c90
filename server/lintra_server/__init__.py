"""One of N servers: it stores one share of every report, and releases one sketch share of one frozen cohort.

Start with `gate`, the only way out. `intake` is the only way in; `store` keeps the shares in between.
"""
