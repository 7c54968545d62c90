"""A verdict of servers found again by somebody who believes none of them."""
