// Pictures of a schedule in time: rows of characters, or SVG.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "consensus/pipeline/replay.hpp"

namespace gv {

struct PictureOptions {
  std::vector<std::string> rows;  ///< The label of each worker; empty: "worker 0" ...
  std::string title;              ///< Of the SVG.
  std::size_t columns = 100;      ///< Of the text, labels included.
  /// Seconds of one character; 0: those of the shortest forward or backward pass. Increased if the
  /// text would be wider than its columns.
  double slot_s = 0;
};

/// One line for each worker, one character for each slot, and the time below:
///
///     worker 0  012a3bcd#
///     worker 1  .0a1b2c3d#
///
/// Digits are forward passes, by the last digit of the micro-batch. Letters are backward passes,
/// with a for micro-batch 0: small letters are whole passes or the part for the inputs, capitals
/// the part for the weights. # is an update, which always has a cell, and a point is an idle slot.
/// A slot shows the instruction that takes most of it; one that is too short for that is shown
/// where there is room. Empty if nothing takes time.
std::string pipeline_text(const PipelineTiming& timing, const PictureOptions& options);

/// The legend of that text: one line for each kind of character that occurs in it.
std::string pipeline_legend(const PipelineTiming& timing);

/// The same as SVG: one box of class "op" for each instruction, with the number of its micro-batch
/// where there is room, over an axis in milliseconds. Empty if nothing takes time.
std::string pipeline_svg(const PipelineTiming& timing, const PictureOptions& options);

}  // namespace gv
