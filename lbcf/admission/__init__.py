"""The process that lets drivers see objects before they are stored.

The API server asks (`server`), the driver of the object is asked (`reviewer`), the verdict
is made by `decisions`. `credentials` keeps the certificate that the API server trusts, made
by `authority` unless files are given.
"""
