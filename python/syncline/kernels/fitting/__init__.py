"""Fits models of kernels to tables of measured ones.

In reading order: :mod:`.rows` reads tables; :mod:`.machines` says what is known of an accelerator before; :mod:`.gemm`
and :mod:`.attention` fit constants by :mod:`.least_squares`, and corrections by :mod:`.regression` on :mod:`.lattices`;
:mod:`.held_out` finds errors on rows that were left out of a fit; :mod:`.libraries` has rates of attention by libraries
of training; :mod:`.document` puts the file together; :mod:`.left_out` prints a table of such errors. All of it needs
the extra ``kernels``.
"""
