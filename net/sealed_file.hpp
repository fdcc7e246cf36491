// Anonymous files whose length cannot change any more.
#pragma once

#include <cstddef>
#include <memory>

#include "net/descriptor.hpp"

namespace gv {

/// Returns a sealed anonymous file of that length; an empty descriptor if the system refuses.
Descriptor make_sealed_file(const char* name, std::size_t bytes);

/// True if it is such a file of that length, so that reading a mapping of it cannot fault.
bool is_sealed_file(const Descriptor& file, std::size_t bytes);

/// Maps the whole file; null if that fails.
std::shared_ptr<std::byte> map_file(const Descriptor& file, std::size_t bytes, bool writable);

}  // namespace gv
