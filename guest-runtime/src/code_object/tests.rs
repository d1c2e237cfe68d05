//! Parsing of real and of hostile code objects.
