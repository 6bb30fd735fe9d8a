// A GPU's UUID from the form in which NVIDIA's tools write it. Pure; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace tessera {

// Of "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", in small or capital letters; nullopt: it has another form.
std::optional<std::array<std::byte, 16>> ParseGpuUuid(std::string_view text);

}  // namespace tessera
