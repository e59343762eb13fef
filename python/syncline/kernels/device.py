"""Facts of the device and the software, and the device's clock, power and temperature while it works."""

from __future__ import annotations

import platform
import shutil
import subprocess
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from syncline.kernels.columns import Row, Value

_QUERY = "clocks.sm,power.draw,temperature.gpu"


def facts(torch: Any, device: str) -> dict[str, Value]:
    """What the header of a table says, for the device ``cpu`` or ``cuda``."""
    found: dict[str, Value] = {"date": datetime.now(UTC).date().isoformat(), "torch": torch.__version__}
    found["python"] = platform.python_version()
    if device == "cpu":
        found.update(device=_processor(), threads=torch.get_num_threads())
        return found
    about = torch.cuda.get_device_properties(0)
    found.update(
        device=about.name,
        compute_capability=f"{about.major}.{about.minor}",
        sm_count=about.multi_processor_count,
        l2_bytes=getattr(about, "L2_cache_size", None),
        memory_bytes=about.total_memory,
        cuda=torch.version.cuda,
        cudnn=_quietly(torch.backends.cudnn.version),
    )
    if text := _smi("driver_version,power.limit,clocks.max.sm,clocks.max.memory"):
        names = ("driver", "power_limit_w", "max_sm_clock_mhz", "max_memory_clock_mhz")
        found.update(zip(names, (cell.strip() for cell in text.split(",")), strict=False))
    return {key: value for key, value in found.items() if value is not None}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _quietly(function: Any) -> Any:
    try:
        return function()
    except Exception:  # noqa: BLE001 - a fact is worth no failure
        return None


def _smi(query: str) -> str | None:
    """The line that nvidia-smi prints for the first device; None without it."""
    if (program := shutil.which("nvidia-smi")) is None:
        return None
    command = [program, f"--query-gpu={query}", "--format=csv,noheader,nounits", "-i", "0"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


class Gauge:
    """Reads the clock, power and temperature of the first GPU: by NVML's Python module, else by nvidia-smi.

    Without either, and on processors, readings are empty.
    """

    def __init__(self, device: str) -> None:
        self._nvml: Any = None
        self._handle: Any = None
        self._process: subprocess.Popen[str] | None = None
        self._last: Row = {}
        self._next = 0.0
        if device == "cuda" and not self._open_nvml():
            self._open_smi()

    def _open_nvml(self) -> bool:
        try:
            import pynvml  # type: ignore[import-not-found, import-untyped, unused-ignore]

            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByIndex(0)
            self._nvml = pynvml
            return bool(self.read())
        except Exception:  # noqa: BLE001 - another way remains
            self._nvml = None
            return False

    def _open_smi(self) -> None:
        if (program := shutil.which("nvidia-smi")) is None:
            return
        command = [program, f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits", "-i", "0", "-lms", "200"]
        try:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)  # noqa: S603
        except OSError:
            return
        threading.Thread(target=self._follow, args=(self._process,), daemon=True).start()

    def _follow(self, process: subprocess.Popen[str]) -> None:
        for line in process.stdout or ():
            try:
                clock, power, heat = (float(cell) for cell in line.split(","))
            except ValueError:
                continue
            self._last = {"sm_clock_mhz": int(clock), "power_w": power, "temperature_c": int(heat)}

    def read(self) -> Row:
        """The columns of now; those of the last reading if readings would take more than a tenth of the time."""
        nvml, began = self._nvml, time.perf_counter()
        if nvml is None or began < self._next:
            return dict(self._last)
        try:
            self._last = {
                "sm_clock_mhz": nvml.nvmlDeviceGetClockInfo(self._handle, nvml.NVML_CLOCK_SM),
                "power_w": self._power(),
                "temperature_c": nvml.nvmlDeviceGetTemperature(self._handle, nvml.NVML_TEMPERATURE_GPU),
            }
        except Exception:  # noqa: BLE001 - a row without a clock is better than none
            self._last = {}
        now = time.perf_counter()
        self._next = now + 9 * (now - began)
        return dict(self._last)

    def _power(self) -> float:
        """Watts: of this moment if the device tells it, else their mean over the last second."""
        nvml = self._nvml
        with suppress(Exception):
            found = nvml.nvmlDeviceGetFieldValues(self._handle, [nvml.NVML_FI_DEV_POWER_INSTANT])[0]
            if found.nvmlReturn == 0 and 0 < found.value.uiVal < 10**7:
                return float(found.value.uiVal) / 1000
        return float(nvml.nvmlDeviceGetPowerUsage(self._handle)) / 1000

    def close(self) -> None:
        """Ends nvidia-smi."""
        if self._process is not None:
            self._process.terminate()
