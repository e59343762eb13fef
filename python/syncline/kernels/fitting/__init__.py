"""Fits models of kernels to tables of measured ones.

In reading order: :mod:`.rows` reads tables; :mod:`.machines` says what is known of an accelerator before; :mod:`.gemm`
and :mod:`.attention` fit constants by :mod:`.least_squares`, and corrections by :mod:`.regression` on :mod:`.lattices`;
:mod:`.libraries` has rates of attention by libraries of training; :mod:`.document` puts the file together;
:mod:`.left_out` measures errors on rows that were left out. All of it needs the extra ``kernels``.
"""
