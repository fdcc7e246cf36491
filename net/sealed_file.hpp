// Anonymous files of a fixed length.
#pragma once

#include <cstddef>
#include <memory>

#include "net/descriptor.hpp"

namespace gv {

/// Returns a sealed anonymous file of `bytes` bytes; an empty descriptor if the system refuses.
Descriptor make_sealed_file(const char* name, std::size_t bytes);

/// True if this is a sealed file of `bytes` bytes, so that reading a mapping of it cannot fault.
bool is_sealed_file(const Descriptor& file, std::size_t bytes);

/// Maps the whole file; returns null on failure.
std::shared_ptr<std::byte> map_file(const Descriptor& file, std::size_t bytes, bool writable);

}  // namespace gv
