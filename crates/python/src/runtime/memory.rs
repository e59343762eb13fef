//! Memory of Python objects that operations read and write while the interpreter goes on.

#![allow(unsafe_code)]

use super::arguments::named;
use crate::errors::to_python;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;
use syncline_diagnostics::{Code, Diagnostic};
use syncline_protocol::memory::Region;
use syncline_reduction::Element;

/// Element types by the format of a buffer, for formats with a fixed size.
const FORMATS: [(&str, Element); 7] = [
    ("f", Element::F32),
    ("d", Element::F64),
    ("e", Element::F16),
    ("b", Element::I8),
    ("B", Element::U8),
    ("h", Element::I16),
    ("?", Element::Bool),
];

/// Formats of signed integers whose size depends on the machine.
const INTEGERS: [&str; 4] = ["i", "l", "n", "q"];

/// What keeps memory valid.
enum Owner {
    /// An export of the buffer protocol: while it is held, the object may not free or move the memory.
    Export(#[expect(dead_code, reason = "held, not read")] PyUntypedBuffer),
    /// An object that keeps the memory valid as long as it exists.
    Object(#[expect(dead_code, reason = "held, not read")] Py<PyAny>),
    /// Nothing: there are no bytes.
    Nobody,
}

/// Contiguous, writable memory of an object, and the type of its elements. It may have any alignment. The object
/// neither frees nor moves the memory as long as this exists.
///
/// The memory may change at any time: Python code may write it, and operations do. So nothing here reads it; operations
/// copy and combine bytes, and any bytes are valid elements. A write by Python while an operation uses the memory is a
/// data race: Rust leaves its effect undefined. In practice, the bytes that are sent or stored are then unspecified.
#[pyclass(frozen, module = "syncline._core")]
pub(crate) struct Memory {
    region: Region,
    element: Element,
    #[expect(dead_code, reason = "held, not read")]
    owner: Owner,
}

impl Memory {
    /// The memory, for an operation.
    ///
    /// # Safety
    /// The operation ends before `self` is dropped. Nothing reads or writes through the region otherwise.
    unsafe fn region(&self) -> Region {
        self.region
    }

    /// The type of the elements.
    pub(super) fn element(&self) -> Element {
        self.element
    }

    /// The number of elements.
    pub(super) fn count(&self) -> u64 {
        (self.region.len() / self.element.bytes()) as u64
    }
}

#[pymethods]
impl Memory {
    /// The memory of an object that has the buffer protocol, which can neither free nor resize it meanwhile.
    #[staticmethod]
    fn of(buffer: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = buffer.py();
        // A view, because PyO3 refuses buffers that leave their shape or strides out, as those of ctypes do.
        let view = PyMemoryView::from(buffer).map_err(|error| {
            if !error.is_instance_of::<PyTypeError>(py) {
                return error;
            }
            let kind = buffer.get_type().name().map_or_else(|_| String::new(), |name| name.to_string());
            let allowed = "bytearray, array.array, NumPy arrays";
            refusal(py, "this object has no memory buffer", kind, allowed.to_owned())
        })?;
        let format: String = view.getattr(intern!(py, "format"))?.extract()?;
        let width: usize = view.getattr(intern!(py, "itemsize"))?.extract()?;
        // Views leave the shape out if there are no dimensions.
        let scalar = view.getattr(intern!(py, "ndim"))?.extract::<usize>()? == 0;
        let flat = if scalar { view.call_method1(intern!(py, "cast"), ("B",))? } else { view.into_any() };
        let held = PyUntypedBuffer::get(&flat)?;
        if held.readonly() || !held.is_c_contiguous() {
            let found = if held.readonly() { "read-only" } else { "with gaps between its elements" };
            let allowed = "writable memory without gaps";
            let what = "a buffer must be writable and contiguous";
            return Err(refusal(py, what, found.to_owned(), allowed.to_owned()));
        }
        let element = element(&format, width).ok_or_else(|| {
            let known = FORMATS.iter().map(|(format, _)| *format).chain(INTEGERS).collect::<Vec<_>>();
            let allowed = format!("formats {}", known.join(", "));
            refusal(py, "elements of this type cannot be reduced", format!("format `{format}`"), allowed)
        })?;
        if held.len_bytes() == 0 {
            return Ok(Self { region: Region::EMPTY, element, owner: Owner::Nobody });
        }
        // SAFETY: clause 1: the exporter promises as many contiguous, writable bytes from there on while the buffer is
        // held, and the region is used only through `Lent`, until its operation has ended. Clause 2 is not guaranteed:
        // Python code that writes the memory meanwhile causes a data race, which Rust leaves undefined; in practice the
        // bytes are unspecified. The same holds for clauses 3 and 4, except among collectives of one communicator and
        // exchanges of one worker: those refuse memory that is in use.
        let region = unsafe { Region::new(held.buf_ptr().cast(), held.len_bytes()) };
        Ok(Self { region, element, owner: Owner::Export(held) })
    }

    /// The memory at an address, for objects without the buffer protocol, such as tensors of PyTorch.
    ///
    /// Unsafe: nothing can check an address. The caller guarantees that the `nbytes` bytes from `address` on are
    /// allocated and writable, and that `owner` neither frees nor moves them as long as it exists.
    ///
    /// Raises `ValueError` if memory cannot have this address and size, or the elements do not fill it, or it has no
    /// owner.
    #[staticmethod]
    fn unsafe_from_address(
        address: usize,
        nbytes: usize,
        element: &str,
        owner: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let element: Element = named(element)?;
        if !nbytes.is_multiple_of(element.bytes()) {
            return Err(PyValueError::new_err(format!("{nbytes} bytes are not a whole number of {element}")));
        }
        if nbytes == 0 {
            return Ok(Self { region: Region::EMPTY, element, owner: Owner::Nobody });
        }
        let fits = isize::try_from(nbytes).is_ok() && address.checked_add(nbytes).is_some();
        if address == 0 || !fits {
            return Err(PyValueError::new_err(format!(
                "there cannot be {nbytes} bytes at address {address:#x}"
            )));
        }
        if owner.is_none() {
            return Err(PyValueError::new_err("memory needs an owner that keeps it valid"));
        }
        // SAFETY: clause 1: the caller gives the address of such memory, and `owner` keeps it valid. The region is used
        // only through `Lent`, until its operation has ended. Clauses 2 to 4: as above.
        let region = unsafe { Region::new(std::ptr::with_exposed_provenance_mut(address), nbytes) };
        Ok(Self { region, element, owner: Owner::Object(owner.clone().unbind()) })
    }

    /// The name of the type of the elements, such as `f32`.
    #[getter(element)]
    fn element_name(&self) -> &'static str {
        self.element.name()
    }

    /// The number of elements.
    #[getter]
    fn elements(&self) -> u64 {
        self.count()
    }

    /// The number of bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.region.len()
    }
}

/// The names of all element types.
#[pyfunction]
pub(crate) fn element_names() -> Vec<&'static str> {
    Element::ALL.iter().map(|element| element.name()).collect()
}

/// The element type of a buffer with this format, whose elements have `width` bytes.
fn element(format: &str, width: usize) -> Option<Element> {
    let format = format.trim_start_matches(['@', '=', '<']);
    if INTEGERS.contains(&format) {
        return format!("i{}", 8 * width).parse().ok();
    }
    FORMATS.iter().find(|(known, _)| *known == format).map(|&(_, element)| element)
}

fn refusal(py: Python<'_>, message: &str, found: String, allowed: String) -> PyErr {
    to_python(py, &Diagnostic::error(Code::BadValue, message).found(found).allowed(allowed).into())
}

/// The memory that an operation reads and writes. [`super::operations::Operations`] holds it until the operation has
/// ended.
#[derive(Default)]
pub(super) struct Lent {
    input: Option<Py<Memory>>,
    output: Option<Py<Memory>>,
}

impl Lent {
    pub(super) const fn new(input: Option<Py<Memory>>, output: Option<Py<Memory>>) -> Self {
        Self { input, output }
    }

    /// The region that the operation reads; empty if there is none.
    ///
    /// # Safety
    /// `self` is held until the operation that gets the region has ended. Nothing reads or writes through the region
    /// otherwise.
    pub(super) unsafe fn input(&self) -> Region {
        // SAFETY: `self` owns the memory, and the caller guarantees the rest.
        self.input.as_ref().map_or(Region::EMPTY, |memory| unsafe { memory.get().region() })
    }

    /// The region that the operation writes; empty if there is none.
    ///
    /// # Safety
    /// As for [`Lent::input`].
    pub(super) unsafe fn output(&self) -> Region {
        // SAFETY: as in `input`.
        self.output.as_ref().map_or(Region::EMPTY, |memory| unsafe { memory.get().region() })
    }
}
