// What a schedule looks like on the clock: rows of characters, or a drawing.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "consensus/pipeline/replay.hpp"

namespace gv {

struct PictureOptions {
  std::vector<std::string> rows;  ///< What is written beside each worker; empty: "worker 0" ...
  std::string title;              ///< Of the drawing.
  std::size_t columns = 100;      ///< Of the text, rows' names included.
  /// What one character stands for; 0: the shortest forward or backward pass. More, if the text
  /// would be wider than its columns.
  double slot_s = 0;
};

/// One line a worker, one character a slot, and the time below:
///
///     worker 0  012a3bcd#
///     worker 1  .0a1b2c3d#
///
/// Digits are forward passes, by the last digit of the micro-batch. Letters are backward passes, a
/// for 0: small ones whole or the part for the inputs, large ones the part for the weights. # is an
/// update, which always has a cell, and a point is a slot with nothing to do. A slot shows what
/// takes most of it; what is too short for that is shown where there is room. Empty if nothing
/// takes time.
std::string pipeline_text(const PipelineTiming& timing, const PictureOptions& options);

/// The legend of that: one line for each kind of character that is in it.
std::string pipeline_legend(const PipelineTiming& timing);

/// The same as SVG: one box of class "op" an operation, with the number of its micro-batch where
/// there is room, over an axis in milliseconds. Empty if nothing takes time.
std::string pipeline_svg(const PipelineTiming& timing, const PictureOptions& options);

}  // namespace gv
