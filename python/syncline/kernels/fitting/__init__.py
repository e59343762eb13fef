"""Fits models of kernels to tables of measured ones.

In reading order: :mod:`.rows` reads tables; :mod:`.machines` says what is known of an accelerator before; :mod:`.gemm`
and :mod:`.attention` fit constants by :mod:`.least_squares`, and corrections by :mod:`.regression` on :mod:`.lattices`;
:mod:`.document` puts the file together. All of it needs the extra ``kernels``.
"""
