"""A bookstore in the shape of TPC-W: fourteen pages as servlets, their database, its population and the images.

Built from the facts of the specification, version 1.8. Departures: names and descriptions are words made of syllables
instead of random characters, of the same lengths; a search finds titles and last names that begin with its text;
there is no payment gateway and no TLS; stock is delivered in lots of 21 until 10 are left, where the one lot of the
specification is not enough for quantities that no browser orders; at the till the cart, not a cookie, knows who pays.
"""
