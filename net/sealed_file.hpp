// Anonymous files whose length cannot change any more.
#pragma once

#include <cstddef>
#include <memory>

#include "net/descriptor.hpp"

namespace gv {

/// An anonymous file of that length, sealed; none when the system has none to give.
Descriptor make_sealed_file(const char* name, std::size_t bytes);

/// Whether it is such a file, of that length: reading a mapping of it cannot fault.
bool is_sealed_file(const Descriptor& file, std::size_t bytes);

/// Maps the whole file; null when that fails.
std::shared_ptr<std::byte> map_file(const Descriptor& file, std::size_t bytes, bool writable);

}  // namespace gv
