//! The bundled example programs, for the guest and for hosted mode alike.
