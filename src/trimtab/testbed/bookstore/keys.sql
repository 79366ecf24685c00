ALTER TABLE country ADD KEY (co_name);
ALTER TABLE address ADD KEY (addr_co_id), ADD KEY (addr_zip),
  ADD FOREIGN KEY (addr_co_id) REFERENCES country (co_id);
ALTER TABLE author ADD KEY (a_lname);
ALTER TABLE customer ADD UNIQUE KEY (c_uname), ADD KEY (c_addr_id),
  ADD FOREIGN KEY (c_addr_id) REFERENCES address (addr_id);
ALTER TABLE item ADD KEY (i_title), ADD KEY (i_subject), ADD KEY (i_a_id),
  ADD FOREIGN KEY (i_a_id) REFERENCES author (a_id);
ALTER TABLE orders ADD KEY (o_c_id), ADD KEY (o_bill_addr_id), ADD KEY (o_ship_addr_id),
  ADD FOREIGN KEY (o_c_id) REFERENCES customer (c_id),
  ADD FOREIGN KEY (o_bill_addr_id) REFERENCES address (addr_id),
  ADD FOREIGN KEY (o_ship_addr_id) REFERENCES address (addr_id);
ALTER TABLE order_line ADD KEY (ol_i_id),
  ADD FOREIGN KEY (ol_o_id) REFERENCES orders (o_id),
  ADD FOREIGN KEY (ol_i_id) REFERENCES item (i_id);
ALTER TABLE cc_xacts ADD KEY (cx_co_id),
  ADD FOREIGN KEY (cx_o_id) REFERENCES orders (o_id),
  ADD FOREIGN KEY (cx_co_id) REFERENCES country (co_id);
ALTER TABLE shopping_cart ADD KEY (sc_c_id),
  ADD FOREIGN KEY (sc_c_id) REFERENCES customer (c_id);
ALTER TABLE shopping_cart_line ADD KEY (scl_i_id),
  ADD FOREIGN KEY (scl_sc_id) REFERENCES shopping_cart (sc_id) ON DELETE CASCADE,
  ADD FOREIGN KEY (scl_i_id) REFERENCES item (i_id);
