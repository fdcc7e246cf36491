// The formats of IDX files and of CIFAR-10's binary files. Shared by the readers of whole files and
// of blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/problems.hpp"

namespace gv {

/// Bytes of one CIFAR-10 record: a label, then 3 x 32 x 32 pixels.
inline constexpr std::size_t cifar_record = 1 + 3 * 32 * 32;
inline constexpr std::size_t cifar_classes = 10;

/// The most values in an IDX file. No real file is larger, so a larger number in a header is an
/// error.
inline constexpr std::uint64_t idx_values_max = std::uint64_t{1} << 62;

/// Bytes of the header of an IDX file, before its values.
constexpr std::size_t idx_header_bytes(std::size_t dimensions) { return 4 + 4 * dimensions; }

/// Returns the dimensions in the header of an IDX file that begins with `bytes`. Adds a problem and
/// returns an empty list unless the file has single-byte values, `expected` dimensions, and at most
/// `idx_values_max` values.
std::vector<std::size_t> idx_dimensions(const std::string& file,
                                        const std::vector<std::uint8_t>& bytes,
                                        std::size_t expected, Problems& problems);

/// Adds a problem if the number of values in a file differs from the number that its header
/// announces.
void check_idx_length(const std::string& file, std::size_t announced, std::size_t held,
                      Problems& problems);

/// Adds a problem if the file `labels` does not have one label for each image.
void check_idx_counts(const std::string& labels, std::size_t label_count, std::size_t image_count,
                      Problems& problems);

/// Returns the problem of a CIFAR-10 file whose size is not a whole number of records.
Problem not_cifar_records(const std::string& file, std::size_t bytes);

/// Returns the problem of a CIFAR-10 record whose label is too large.
Problem bad_cifar_label(const std::string& file, std::size_t record, std::uint8_t label);

}  // namespace gv
