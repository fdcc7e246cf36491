// Draws a schedule over time: as rows of characters, or as SVG.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "consensus/pipeline/replay.hpp"

namespace gv {

struct PictureOptions {
  std::vector<std::string> rows;  ///< The label of each worker. Empty means "worker 0" and so on.
  std::string title;              ///< The title of an SVG.
  std::size_t columns = 100;      ///< Largest width of the text in characters, labels included.
  /// Seconds that one character represents. 0 means the time of the shortest forward or backward
  /// pass. The drawing uses a larger value if the text would be too wide.
  double slot_s = 0;
};

/// Draws the schedule as text: one line for each worker, one character for each slot, and a time
/// axis below:
///
///     worker 0  012a3bcd#
///     worker 1  .0a1b2c3d#
///
/// A digit is a forward pass, and shows the last digit of the micro-batch's number. A letter is a
/// backward pass, with "a" for micro-batch 0. Small letters are complete backward passes or their
/// part for the inputs, and capitals are the part for the weights. # is an update, which is always
/// shown, and a dot is an idle slot. A slot shows the instruction that fills most of it. An
/// instruction that fills no slot is shown where there is room. The result is empty if nothing
/// takes time.
std::string pipeline_text(const PipelineTiming& timing, const PictureOptions& options);

/// The legend of pipeline_text(): one line for each kind of character in the text.
std::string pipeline_legend(const PipelineTiming& timing);

/// Draws the schedule as SVG: one box of class "op" for each instruction, with the number of its
/// micro-batch if it fits, over an axis in milliseconds. Empty if nothing takes time.
std::string pipeline_svg(const PipelineTiming& timing, const PictureOptions& options);

}  // namespace gv
