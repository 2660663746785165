//! Safe wrappers of the CUDA driver functions that are needed.
//!
//! Handles are private to [`Driver`], [`Module`], [`Event`] and [`DeviceMemory`]; they come from the CUDA driver and are only passed back
//! to it. All calls must be made from the thread that created the [`Driver`], since the context is current in that thread.

use libloading::{Library, Symbol};
use oriole_kernel_test::{Conversion, Element, Region, TensorMap};
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::fmt;

type Status = c_int;
type Handle = *mut c_void;
type DevicePointer = u64;

const LIBRARY_NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];
const JIT_ERROR_LOG_BUFFER: c_int = 5;
const JIT_ERROR_LOG_BUFFER_BYTES: c_int = 6;
const ATTRIBUTE_COMPUTE_MAJOR: c_int = 75;
const ATTRIBUTE_COMPUTE_MINOR: c_int = 76;
const FUNCTION_MAX_DYNAMIC_SHARED_BYTES: c_int = 8;
/// Amount of dynamic shared memory, in bytes, above which a kernel needs an explicit attribute.
const DEFAULT_SHARED_LIMIT_BYTES: u32 = 48 * 1024;
/// The launch attribute for the size of clusters.
const LAUNCH_CLUSTER_DIMENSION: c_int = 4;
const LIMIT_STACK_BYTES: c_int = 0;
/// Stack size per thread in bytes, for kernels with recursion or indirect calls; the default of 1,024 suffices for only a few nested
/// calls.
const STACK_BYTES: usize = 16 * 1024;
const LOG_BYTES: usize = 8192;
const DEVICE_NAME_BYTES: usize = 256;

/// A failed call of the CUDA driver, or a missing driver library.
#[derive(Clone, Debug)]
pub struct Error {
    pub message: String,
    /// Whether the context is unusable after this error.
    pub sticky: bool,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// Returns an error after which the context is still usable.
fn plain_error(message: String) -> Error {
    Error { message, sticky: false }
}

macro_rules! functions {
    ($($field:ident = $symbol:literal ($($kind:ty),*);)*) => {
        struct Functions { $($field: unsafe extern "C" fn($($kind),*) -> Status,)* }

        impl Functions {
            fn load(library: &Library) -> Result<Functions, Error> {
                $(
                    // SAFETY: the signature is that of cuda.h for this symbol; the pointer is only used while `library` is loaded, since
                    // both are stored together in `Driver`.
                    let $field: Symbol<'_, unsafe extern "C" fn($($kind),*) -> Status> = unsafe { library.get($symbol) }
                        .map_err(|error| plain_error(format!("the CUDA driver lacks a function: {error}")))?;
                )*
                Ok(Functions { $($field: *$field,)* })
            }
        }
    };
}

functions! {
    init = b"cuInit" (c_uint);
    device_get = b"cuDeviceGet" (*mut c_int, c_int);
    device_attribute = b"cuDeviceGetAttribute" (*mut c_int, c_int, c_int);
    device_name = b"cuDeviceGetName" (*mut c_char, c_int, c_int);
    driver_version = b"cuDriverGetVersion" (*mut c_int);
    retain_context = b"cuDevicePrimaryCtxRetain" (*mut Handle, c_int);
    set_context = b"cuCtxSetCurrent" (Handle);
    set_limit = b"cuCtxSetLimit" (c_int, usize);
    synchronize = b"cuCtxSynchronize" ();
    load_module = b"cuModuleLoadDataEx" (*mut Handle, *const c_void, c_uint, *mut c_int, *mut *mut c_void);
    unload_module = b"cuModuleUnload" (Handle);
    get_function = b"cuModuleGetFunction" (*mut Handle, Handle, *const c_char);
    set_function_attribute = b"cuFuncSetAttribute" (Handle, c_int, c_int);
    allocate = b"cuMemAlloc_v2" (*mut DevicePointer, usize);
    free = b"cuMemFree_v2" (DevicePointer);
    copy_to_device = b"cuMemcpyHtoD_v2" (DevicePointer, *const c_void, usize);
    copy_to_host = b"cuMemcpyDtoH_v2" (*mut c_void, DevicePointer, usize);
    launch = b"cuLaunchKernel" (
        Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void, *mut *mut c_void
    );
    create_event = b"cuEventCreate" (*mut Handle, c_uint);
    record_event = b"cuEventRecord" (Handle, Handle);
    wait_for_event = b"cuEventSynchronize" (Handle);
    elapsed_time = b"cuEventElapsedTime" (*mut f32, Handle, Handle);
    destroy_event = b"cuEventDestroy_v2" (Handle);
    error_name = b"cuGetErrorName" (Status, *mut *const c_char);
}

/// The loaded CUDA driver, with a current context on the first device.
pub struct Driver {
    functions: Functions,
    /// Compute capability, for example 90 for `sm_90`.
    pub architecture: u32,
    library: Library,
}

impl Driver {
    /// Loads the driver library and creates a context.
    pub fn load() -> Result<Driver, Error> {
        let library = LIBRARY_NAMES
            .iter()
            // SAFETY: the driver library has no initializers beyond those that every CUDA program runs.
            .find_map(|name| unsafe { Library::new(name) }.ok())
            .ok_or_else(|| plain_error("no CUDA driver: libcuda.so.1 cannot be loaded".into()))?;
        let functions = Functions::load(&library)?;
        let mut driver = Driver { functions, architecture: 0, library };
        driver.make_context()?;
        Ok(driver)
    }

    /// Creates the context on the first device and makes it current.
    fn make_context(&mut self) -> Result<(), Error> {
        let f = &self.functions;
        let (mut device, mut context) = (0, std::ptr::null_mut());
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the pointers refer to local variables that outlive the calls.
        unsafe {
            self.check("cuInit", (f.init)(0))?;
            self.check("cuDeviceGet", (f.device_get)(&mut device, 0))?;
            self.check("cuDeviceGetAttribute", (f.device_attribute)(&mut major, ATTRIBUTE_COMPUTE_MAJOR, device))?;
            self.check("cuDeviceGetAttribute", (f.device_attribute)(&mut minor, ATTRIBUTE_COMPUTE_MINOR, device))?;
            self.check("cuDevicePrimaryCtxRetain", (f.retain_context)(&mut context, device))?;
            self.check("cuCtxSetCurrent", (f.set_context)(context))?;
            self.check("cuCtxSetLimit", (f.set_limit)(LIMIT_STACK_BYTES, STACK_BYTES))?;
        }
        self.architecture = (major * 10 + minor) as u32;
        Ok(())
    }

    /// Converts the status of a call into a result.
    fn check(&self, call: &str, status: Status) -> Result<(), Error> {
        if status == 0 {
            return Ok(());
        }
        let mut name: *const c_char = std::ptr::null();
        // SAFETY: on success the driver stores a pointer to a static string.
        let name = unsafe {
            (self.functions.error_name)(status, &mut name);
            if name.is_null() { format!("error {status}") } else { CStr::from_ptr(name).to_string_lossy().into_owned() }
        };
        // The codes from 700 on are errors of kernels after which the context is unusable (except 701, a refused launch).
        let sticky = (700..=720).contains(&status) && status != 701;
        Err(Error { message: format!("{call}: {name}"), sticky })
    }

    /// Loads a cubin, or PTX text, which the driver compiles.
    pub fn load_module(&self, image: &[u8]) -> Result<Module<'_>, Error> {
        let mut terminated = image.to_vec();
        terminated.push(0);
        let mut log = vec![0u8; LOG_BYTES];
        let mut options = [JIT_ERROR_LOG_BUFFER, JIT_ERROR_LOG_BUFFER_BYTES];
        let mut values = [log.as_mut_ptr().cast::<c_void>(), LOG_BYTES as *mut c_void];
        let mut handle = std::ptr::null_mut();
        // SAFETY: the image ends with a zero byte, as PTX must, and a cubin contains its size; the log buffer has the size that is passed.
        let status = unsafe {
            (self.functions.load_module)(
                &mut handle,
                terminated.as_ptr().cast(),
                options.len() as c_uint,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        self.check("cuModuleLoadDataEx", status).map_err(|mut error| {
            let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
            let log = String::from_utf8_lossy(&log[..end]);
            if !log.trim().is_empty() {
                error.message = format!("{}: {}", error.message, log.trim().replace('\n', " / "));
            }
            error
        })?;
        Ok(Module { driver: self, handle })
    }

    /// Allocates device memory.
    pub fn allocate(&self, bytes: usize) -> Result<DeviceMemory<'_>, Error> {
        let mut address = 0;
        // SAFETY: the address is stored into a local variable.
        self.check("cuMemAlloc", unsafe { (self.functions.allocate)(&mut address, bytes) })?;
        Ok(DeviceMemory { driver: self, address, bytes })
    }

    /// Returns the name of the device, such as `NVIDIA H200`.
    pub fn device_name(&self) -> Result<String, Error> {
        let mut name: [c_char; DEVICE_NAME_BYTES] = [0; DEVICE_NAME_BYTES];
        // SAFETY: the buffer has the size that is passed, and the driver terminates the name with a zero byte.
        let name = unsafe {
            self.check("cuDeviceGetName", (self.functions.device_name)(name.as_mut_ptr(), DEVICE_NAME_BYTES as c_int, 0))?;
            CStr::from_ptr(name.as_ptr())
        };
        Ok(name.to_string_lossy().into_owned())
    }

    /// Returns the newest CUDA version that the driver supports: 1000 times the major plus 10 times the minor version.
    pub fn driver_version(&self) -> Result<u32, Error> {
        let mut version = 0;
        // SAFETY: the number is stored into a local variable.
        self.check("cuDriverGetVersion", unsafe { (self.functions.driver_version)(&mut version) })?;
        Ok(version as u32)
    }

    /// Creates an event.
    pub fn event(&self) -> Result<Event<'_>, Error> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the handle is stored into a local variable; no flags are set.
        self.check("cuEventCreate", unsafe { (self.functions.create_event)(&mut handle, 0) })?;
        Ok(Event { driver: self, handle })
    }

    /// Waits until all launched kernels have finished.
    pub fn synchronize(&self) -> Result<(), Error> {
        // SAFETY: the call has no arguments.
        self.check("kernel", unsafe { (self.functions.synchronize)() })
    }
}

/// A loaded module.
pub struct Module<'driver> {
    driver: &'driver Driver,
    handle: Handle,
}

/// `CUlaunchAttribute` of cuda.h.
#[repr(C)]
struct LaunchAttribute {
    id: c_int,
    padding: [u8; 4],
    /// A union of 64 bytes; a cluster size is its first three words.
    value: [u32; 16],
}

/// `CUlaunchConfig` of cuda.h.
#[repr(C)]
struct LaunchConfiguration {
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared_bytes: c_uint,
    stream: Handle,
    attributes: *mut LaunchAttribute,
    attribute_count: c_uint,
}

/// `cuLaunchKernelEx`, which drivers have since CUDA 11.8.
type LaunchExtended = unsafe extern "C" fn(*const LaunchConfiguration, Handle, *mut *mut c_void, *mut *mut c_void) -> Status;

/// Bytes of a tensor map, and its alignment.
const TENSOR_MAP_BYTES: usize = 128;

#[repr(C, align(64))]
struct TensorMapBytes([u8; TENSOR_MAP_BYTES]);

/// `cuTensorMapEncodeTiled`, which drivers have since CUDA 12.0.
type EncodeTiled = unsafe extern "C" fn(
    *mut TensorMapBytes,
    c_int,
    c_uint,
    *mut c_void,
    *const u64,
    *const u64,
    *const c_uint,
    *const c_uint,
    c_int,
    c_int,
    c_int,
    c_int,
) -> Status;

/// `cuTensorMapEncodeIm2col`, which drivers have since CUDA 12.0.
type EncodeColumns = unsafe extern "C" fn(
    *mut TensorMapBytes,
    c_int,
    c_uint,
    *mut c_void,
    *const u64,
    *const u64,
    *const c_int,
    *const c_int,
    c_uint,
    c_uint,
    *const c_uint,
    c_int,
    c_int,
    c_int,
    c_int,
) -> Status;

impl Driver {
    /// Returns the bytes of a tensor map of a buffer at an address.
    pub fn tensor_map(&self, map: &TensorMap, address: DevicePointer) -> Result<Vec<u8>, Error> {
        // The numbers of `CUtensorMapDataType`.
        let ty = match (map.element, map.conversion) {
            (Element::U8 | Element::S8, _) => 0,
            (Element::U16 | Element::S16, _) => 1,
            (Element::U32, _) => 2,
            (Element::S32, _) => 3,
            (Element::U64, _) => 4,
            (Element::S64, _) => 5,
            (Element::F16, _) => 6,
            (Element::F32, Conversion::None) => 7,
            (Element::F64, _) => 8,
            (Element::Bf16, _) => 9,
            (Element::F32, Conversion::Flush) => 10,
            (Element::F32, Conversion::Tf32) => 11,
            (Element::F32, Conversion::Tf32Flush) => 12,
        };
        // The numbers of `CUtensorMapSwizzle` and `CUtensorMapInterleave`.
        let swizzle = match map.swizzle {
            32 => 1,
            64 => 2,
            128 => 3,
            _ => 0,
        };
        let interleave = (map.interleave / 16) as c_int;
        let fill = c_int::from(map.fills_with_nan);
        let mut bytes = TensorMapBytes([0; TENSOR_MAP_BYTES]);
        let mut strides = map.strides();
        strides.push(0);
        let rank = map.sizes.len() as c_uint;
        let no_function = |error| plain_error(format!("the CUDA driver cannot make tensor maps: {error}"));
        match &map.region {
            Region::Box(box_sizes) => {
                // SAFETY: the signature is that of cuda.h for this symbol; the pointer is used only here, while the library is loaded.
                let encode: Symbol<'_, EncodeTiled> = unsafe { self.library.get(b"cuTensorMapEncodeTiled") }.map_err(no_function)?;
                // SAFETY: the arrays have one element for each dimension and live until the call returns; the address is not accessed.
                let status = unsafe {
                    encode(
                        &raw mut bytes,
                        ty,
                        rank,
                        address as *mut c_void,
                        map.sizes.as_ptr(),
                        strides.as_ptr(),
                        box_sizes.as_ptr(),
                        map.steps.as_ptr(),
                        interleave,
                        swizzle,
                        0,
                        fill,
                    )
                };
                self.check("cuTensorMapEncodeTiled", status)?;
            }
            Region::Columns { channels, pixels, lower, upper } => {
                // SAFETY: as above.
                let encode: Symbol<'_, EncodeColumns> = unsafe { self.library.get(b"cuTensorMapEncodeIm2col") }.map_err(no_function)?;
                // SAFETY: as above; the corners have one element for each dimension of an image.
                let status = unsafe {
                    encode(
                        &raw mut bytes,
                        ty,
                        rank,
                        address as *mut c_void,
                        map.sizes.as_ptr(),
                        strides.as_ptr(),
                        lower.as_ptr(),
                        upper.as_ptr(),
                        *channels,
                        *pixels,
                        map.steps.as_ptr(),
                        interleave,
                        swizzle,
                        0,
                        fill,
                    )
                };
                self.check("cuTensorMapEncodeIm2col", status)?;
            }
        }
        Ok(bytes.0.to_vec())
    }
}

/// Grid size, block size, cluster size if the launch specifies it, and dynamic shared memory in bytes.
#[derive(Clone, Copy, Debug)]
pub struct LaunchShape {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub cluster: Option<[u32; 3]>,
    pub shared_bytes: u32,
}

impl Module<'_> {
    /// Launches a kernel asynchronously. Each argument holds the bytes of one parameter.
    pub fn launch(&self, kernel: &str, shape: LaunchShape, arguments: &mut [Vec<u8>]) -> Result<(), Error> {
        let f = &self.driver.functions;
        let name = CString::new(kernel).map_err(|_| plain_error("the kernel's name has a zero byte".into()))?;
        let mut function = std::ptr::null_mut();
        // SAFETY: the module is loaded, the name ends with a zero byte, and the handle is stored into a local variable.
        let status = unsafe { (f.get_function)(&mut function, self.handle, name.as_ptr()) };
        self.driver.check("cuModuleGetFunction", status)?;
        if shape.shared_bytes > DEFAULT_SHARED_LIMIT_BYTES {
            // SAFETY: the function belongs to this module.
            let status = unsafe { (f.set_function_attribute)(function, FUNCTION_MAX_DYNAMIC_SHARED_BYTES, shape.shared_bytes as c_int) };
            self.driver.check("cuFuncSetAttribute", status)?;
        }
        let mut pointers: Vec<*mut c_void> = arguments.iter_mut().map(|bytes| bytes.as_mut_ptr().cast()).collect();
        if let Some(cluster) = shape.cluster {
            return self.launch_clusters(function, shape, cluster, &mut pointers);
        }
        let ([gx, gy, gz], [bx, by, bz]) = (shape.grid, shape.block);
        // SAFETY: there is one pointer per parameter that the caller declared, each to bytes that live until the call returns; the driver
        // copies the bytes during the call. The kernel itself runs in the address space of the GPU, whatever it does.
        let status = unsafe {
            (f.launch)(
                function,
                gx,
                gy,
                gz,
                bx,
                by,
                bz,
                shape.shared_bytes,
                std::ptr::null_mut(),
                pointers.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        };
        self.driver.check("cuLaunchKernel", status)
    }

    /// Launches a function with clusters of a size. `pointers` has one pointer to the bytes of each parameter.
    fn launch_clusters(
        &self,
        function: Handle,
        shape: LaunchShape,
        [x, y, z]: [u32; 3],
        pointers: &mut [*mut c_void],
    ) -> Result<(), Error> {
        // SAFETY: the signature is that of cuda.h for this symbol; the pointer is used only here, while the library is loaded.
        let launch: Symbol<'_, LaunchExtended> = unsafe { self.driver.library.get(b"cuLaunchKernelEx") }
            .map_err(|error| plain_error(format!("the CUDA driver cannot launch clusters: {error}")))?;
        let mut value = [0; 16];
        value[..3].copy_from_slice(&[x, y, z]);
        let mut attribute = LaunchAttribute { id: LAUNCH_CLUSTER_DIMENSION, padding: [0; 4], value };
        let configuration = LaunchConfiguration {
            grid: shape.grid,
            block: shape.block,
            shared_bytes: shape.shared_bytes,
            stream: std::ptr::null_mut(),
            attributes: &raw mut attribute,
            attribute_count: 1,
        };
        // SAFETY: the structures have the layout of cuda.h and live until the call returns; for the parameters see `launch`.
        let status = unsafe { launch(&raw const configuration, function, pointers.as_mut_ptr(), std::ptr::null_mut()) };
        self.driver.check("cuLaunchKernelEx", status)
    }
}

impl Drop for Module<'_> {
    fn drop(&mut self) {
        // SAFETY: the module was loaded by this driver and is unloaded once. An error is ignored, since nothing can be done about it.
        unsafe { (self.driver.functions.unload_module)(self.handle) };
    }
}

/// A CUDA event: a point in the sequence of the device's work, with a time stamp once the point is reached.
pub struct Event<'driver> {
    driver: &'driver Driver,
    handle: Handle,
}

impl Event<'_> {
    /// Records the event after all work that was launched before.
    pub fn record(&self) -> Result<(), Error> {
        // SAFETY: the event is alive; a null stream is the default stream, which launches use.
        self.driver.check("cuEventRecord", unsafe { (self.driver.functions.record_event)(self.handle, std::ptr::null_mut()) })
    }

    /// Waits for this event; returns the time in microseconds since an earlier one.
    pub fn microseconds_since(&self, earlier: &Event<'_>) -> Result<f64, Error> {
        let mut milliseconds = 0.0;
        // SAFETY: both events are alive and have been recorded; the time is stored into a local variable.
        unsafe {
            self.driver.check("kernel", (self.driver.functions.wait_for_event)(self.handle))?;
            let status = (self.driver.functions.elapsed_time)(&mut milliseconds, earlier.handle, self.handle);
            self.driver.check("cuEventElapsedTime", status)?;
        }
        Ok(f64::from(milliseconds) * 1000.0)
    }
}

impl Drop for Event<'_> {
    fn drop(&mut self) {
        // SAFETY: the event was created by this driver and is destroyed once. An error is ignored, since nothing can be done about it.
        unsafe { (self.driver.functions.destroy_event)(self.handle) };
    }
}

/// An allocation in device memory.
pub struct DeviceMemory<'driver> {
    driver: &'driver Driver,
    pub address: u64,
    bytes: usize,
}

impl DeviceMemory<'_> {
    /// Writes to the start of the memory.
    pub fn write(&self, data: &[u8]) -> Result<(), Error> {
        self.write_at(0, data)
    }

    /// Writes at a byte offset. Panics if the data does not fit.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), Error> {
        assert!(offset as usize + data.len() <= self.bytes, "{} bytes at {offset} into {}", data.len(), self.bytes);
        // SAFETY: the range is inside the allocation, as asserted above.
        let status = unsafe { (self.driver.functions.copy_to_device)(self.address + offset, data.as_ptr().cast(), data.len()) };
        self.driver.check("cuMemcpyHtoD", status)
    }

    /// Reads the whole memory.
    pub fn read(&self) -> Result<Vec<u8>, Error> {
        let mut data = vec![0; self.bytes];
        // SAFETY: the vector has as many bytes as are copied.
        let status = unsafe { (self.driver.functions.copy_to_host)(data.as_mut_ptr().cast(), self.address, data.len()) };
        self.driver.check("cuMemcpyDtoH", status)?;
        Ok(data)
    }
}

impl Drop for DeviceMemory<'_> {
    fn drop(&mut self) {
        // SAFETY: the memory was allocated by this driver and is freed once. An error is ignored, since nothing can be done about it.
        unsafe { (self.driver.functions.free)(self.address) };
    }
}
