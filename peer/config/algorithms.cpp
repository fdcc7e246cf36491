// The table of named algorithms.
#include "peer/config/algorithms.hpp"

#include <algorithm>
#include <array>

namespace gv {
namespace {

constexpr std::array table = {
    // ---- All peers together ----
    NamedAlgorithm{"all_reduce", "exact-mean", "all step on the exact mean gradient", "",
                   "[run]\nmode = \"allreduce\"\n"},
    NamedAlgorithm{"local_sgd", "exact-mean", "16 steps alone, then the exact mean of all models",
                   "Stich 2019", "[run]\nmode = \"allreduce\"\n[allreduce]\nperiod = 16\n"},
    NamedAlgorithm{"post_local_sgd", "exact-mean", "all_reduce for 500 steps, then local_sgd",
                   "Lin 2020",
                   "[run]\nmode = \"allreduce\"\n[allreduce]\nperiod = 16\nlocal_after = 500\n"},
    NamedAlgorithm{"diloco", "exact-mean", "50 steps alone, then Nesterov with the mean change",
                   "Douillard 2023",
                   "[run]\nmode = \"allreduce\"\n[allreduce]\nperiod = 50\nouter = \"nesterov\"\n"},
    NamedAlgorithm{"slowmo", "exact-mean", "local_sgd with slow momentum over 4 averages",
                   "Wang 2020",
                   "[run]\nmode = \"mixing\"\n[mixing]\ntopology = \"complete\"\n"
                   "period_steps = 12\nouter = \"slowmo\"\nouter_every = 4\n"},
    NamedAlgorithm{"streaming", "exact-mean", "a quarter of the model is averaged at a time",
                   "Douillard 2025",
                   "[run]\nmode = \"mixing\"\n[mixing]\ntopology = \"complete\"\n"
                   "period_steps = 4\nfragments = 4\n"},
    NamedAlgorithm{"stale_synchronous", "exact-mean", "averages wait for models up to 3 rounds old",
                   "Ho 2013",
                   "[run]\nmode = \"mixing\"\n[mixing]\ntopology = \"complete\"\n"
                   "order = \"combine_then_adapt\"\nperiod_steps = 4\nstaleness = 3\n"},
    // ---- Pairs ----
    NamedAlgorithm{"elastic", "pairs", "drawn pairs pull at each other, each at its own pace", "",
                   "[run]\nmode = \"gossip\"\n"},
    NamedAlgorithm{"ad_psgd", "pairs", "a peer that has stepped averages with a drawn neighbour",
                   "Lian 2018",
                   "[run]\nmode = \"gossip\"\n[gossip]\npairing = \"uniform\"\n"
                   "topology = \"exponential\"\nperiod_steps = 4\n"},
    NamedAlgorithm{"matching", "pairs", "drawn pairs average in rounds", "Boyd 2006",
                   "[run]\nmode = \"mixing\"\n[mixing]\ntopology = \"matching\"\n"},
    NamedAlgorithm{"elastic_gossip", "pairs", "each draws a partner; both are pulled together",
                   "Pramod 2018",
                   "[run]\nmode = \"mixing\"\n[mixing]\ntopology = \"complete\"\n"
                   "partners = \"both\"\nalpha = 0.3\n"},
    NamedAlgorithm{"gossiping_sgd", "pairs", "each draws a partner and averages with it",
                   "Jin 2016",
                   "[run]\nmode = \"mixing\"\n[mixing]\ntopology = \"complete\"\n"
                   "partners = \"pull\"\n"},
    NamedAlgorithm{"gossiping_push", "pairs", "each draws one that averages what it is sent",
                   "Jin 2016",
                   "[run]\nmode = \"mixing\"\n[mixing]\ntopology = \"complete\"\n"
                   "partners = \"push\"\n"},
    NamedAlgorithm{"a2cid2", "pairs", "pairs along a ring with a second, leaning model",
                   "Nabli 2023",
                   "[run]\nmode = \"mixing\"\n[mixing]\ntopology = \"ring\"\n"
                   "partners = \"pairs\"\nkind = \"companion\"\n"},
    NamedAlgorithm{"noloco", "pairs", "50 steps alone, then momentum shared by drawn pairs",
                   "Kolehmainen 2025",
                   "[run]\nmode = \"mixing\"\n[mixing]\ntopology = \"matching\"\n"
                   "kind = \"noloco\"\nmomentum = 0.5\ngamma = 0.7\nouter_learning_rate = 0.7\n"
                   "period_steps = 50\n"},
    // ---- A population ----
    NamedAlgorithm{"population", "population",
                   "the worst copy the best and vary what they train with", "Jaderberg 2017",
                   "[run]\nmode = \"gossip\"\n[population]\nevery_steps = 200\n"},
    // ---- Threads of one peer ----
    NamedAlgorithm{"hogwild", "threads", "threads of each peer step on its model without locks",
                   "Niu 2011",
                   "[run]\nmode = \"gossip\"\n[train]\noptimizer = \"sgd\"\nthreads = 2\n"},
    // ---- Neighbours on a graph ----
    NamedAlgorithm{"d_psgd", "neighbours", "steps while the ring's models travel", "Lian 2017",
                   "[run]\nmode = \"mixing\"\n[mixing]\ntopology = \"ring\"\n"
                   "order = \"combine_then_adapt\"\n"},
    NamedAlgorithm{"diffusion", "neighbours", "steps, then the mean of the ring's neighbours",
                   "Chen 2012", "[run]\nmode = \"mixing\"\n[mixing]\ntopology = \"ring\"\n"},
    NamedAlgorithm{"base_2", "neighbours", "pairs whose rounds come to the exact mean",
                   "Takezawa 2023", "[run]\nmode = \"mixing\"\n[mixing]\ntopology = \"base_k\"\n"},
    NamedAlgorithm{"moshpit", "neighbours", "groups along the lines of a grid", "Ryabinin 2021",
                   "[run]\nmode = \"mixing\"\n[mixing]\ntopology = \"moshpit\"\n"},
    NamedAlgorithm{"block_scheduling", "neighbours", "each sends the quarter that changed most", "",
                   "[run]\nmode = \"mixing\"\n[mixing]\ntopology = \"exponential\"\n"
                   "fragments = 4\nfragment_order = \"largest\"\n"},
    NamedAlgorithm{"async", "neighbours", "no peer waits; old models count less", "",
                   "[run]\nmode = \"mixing\"\n[mixing]\ntopology = \"exponential\"\n"
                   "order = \"combine_then_adapt\"\nstaleness = -1\nweigh_by_age = true\n"},
    NamedAlgorithm{"sgp", "neighbours", "push-sum along one-peer exponential rounds", "Assran 2019",
                   "[run]\nmode = \"mixing\"\n[mixing]\ntopology = \"one_peer_exponential\"\n"
                   "kind = \"push_sum\"\n"},
    NamedAlgorithm{"osgp", "neighbours", "sgp that goes on while the last round travels",
                   "Assran 2019",
                   "[run]\nmode = \"mixing\"\n[mixing]\ntopology = \"one_peer_exponential\"\n"
                   "kind = \"push_sum\"\nstaleness = 1\n"},
    NamedAlgorithm{"relay_sgd", "neighbours", "sums travel through a tree", "Vogels 2021",
                   "[run]\nmode = \"mixing\"\n[mixing]\ntopology = \"tree\"\n"
                   "kind = \"relay_sum\"\n"},
    // ---- A centre ----
    NamedAlgorithm{"easgd", "centre", "workers and a centre pull at each other", "Zhang 2015",
                   "[run]\nmode = \"mixing\"\n[mixing]\ntopology = \"star\"\n"
                   "order = \"combine_then_adapt\"\nperiod_steps = 10\ncentre_rests = true\n"},
    NamedAlgorithm{"eamsgd", "centre", "easgd whose workers have a long momentum", "Zhang 2015",
                   "[run]\nmode = \"mixing\"\n[train]\noptimizer = \"nesterov\"\n"
                   "momentum = 0.99\n[mixing]\ntopology = \"star\"\n"
                   "order = \"combine_then_adapt\"\nperiod_steps = 10\ncentre_rests = true\n"},
    NamedAlgorithm{"async_easgd", "centre", "easgd by exchanges of each worker at its own pace",
                   "Zhang 2015",
                   "[run]\nmode = \"gossip\"\n[train]\noptimizer = \"sgd\"\n"
                   "[gossip]\ntopology = \"star\"\npairing = \"uniform\"\n"
                   "centre_rests = true\nalpha = 0.1\nperiod_steps = 10\n"},
    NamedAlgorithm{"async_downpour", "centre", "a centre adds up what workers do as it comes",
                   "Dean 2012",
                   "[run]\nmode = \"mixing\"\n[train]\noptimizer = \"sgd\"\n"
                   "[mixing]\ntopology = \"star\"\nkind = \"downpour\"\n"
                   "centre_rests = true\nstaleness = -1\n"},
    NamedAlgorithm{"downpour", "centre", "async_downpour in rounds: all wait for all",
                   "after Dean 2012",
                   "[run]\nmode = \"mixing\"\n[mixing]\ntopology = \"star\"\n"
                   "kind = \"downpour\"\ncentre_rests = true\n"},
    NamedAlgorithm{"server_tree", "centre", "async_downpour through a tree of servers",
                   "Gupta 2016",
                   "[run]\nmode = \"mixing\"\n[train]\noptimizer = \"sgd\"\n"
                   "[mixing]\ntopology = \"tree\"\nkind = \"downpour\"\n"
                   "centre_rests = true\nstaleness = -1\n"},
    // ---- Hosts ----
    NamedAlgorithm{"host_gossip", "hosts", "all of a host average every step; drawn hosts at times",
                   "", "[run]\nmode = \"mixing\"\n[mixing]\ntopology = \"hosts\"\n"},
    // ---- Slices ----
    NamedAlgorithm{"slicing", "slices", "each trains its slice with the others' as last heard", "",
                   "[run]\nmode = \"mixing\"\n[train]\noptimizer = \"sgd\"\n"
                   "[mixing]\ntopology = \"complete\"\nfragments = 4\n"
                   "fragment_order = \"own\"\nperiod_steps = 2\nstaleness = -1\n"},
    // ---- Fewer bytes ----
    NamedAlgorithm{"choco", "compressed", "a tenth of what changed since neighbours knew us",
                   "Koloskova 2019",
                   "[run]\nmode = \"mixing\"\n[mixing]\ntopology = \"ring\"\n"
                   "memory = \"difference\"\ncodec = \"top_k\"\ncodec_fraction = 0.1\n"
                   "gamma = 0.2\n"},
    NamedAlgorithm{"choco_sign", "compressed", "the same in one bit a number", "Koloskova 2019",
                   "[run]\nmode = \"mixing\"\n[mixing]\ntopology = \"ring\"\n"
                   "memory = \"difference\"\ncodec = \"sign\"\ngamma = 0.45\n"},
    NamedAlgorithm{"dcd", "compressed", "a byte a number, and only what all know is kept",
                   "Tang 2018",
                   "[run]\nmode = \"mixing\"\n[mixing]\ntopology = \"ring\"\n"
                   "memory = \"replicated_difference\"\ncodec = \"qsgd\"\n"},
    NamedAlgorithm{
        "deep_squeeze", "compressed", "four bits a number, with what they lack kept", "Tang 2019",
        "[run]\nmode = \"mixing\"\n[mixing]\ntopology = \"ring\"\n"
        "memory = \"error_feedback\"\ncodec = \"qsgd\"\ncodec_levels = 7\ngamma = 0.5\n"},
    NamedAlgorithm{"dgc", "compressed", "lockstep with 0.4 % of gradients, with momentum before",
                   "Lin 2018",
                   "[run]\nmode = \"allreduce\"\n[train]\noptimizer = \"sgd\"\n"
                   "[allreduce]\ntop_k_per_512 = 2\nmomentum = 0.9\nwarm_up_steps = 500\n"},
    NamedAlgorithm{"power_sgd", "compressed", "lockstep with matrices of gradients as thin factors",
                   "Vogels 2019", "[run]\nmode = \"allreduce\"\n[allreduce]\nrank = 4\n"},
    NamedAlgorithm{"sufficient_factors", "compressed",
                   "lockstep with inputs and deltas of dense layers", "Xie 2014",
                   "[run]\nmode = \"allreduce\"\n[allreduce]\nsufficient_factors = true\n"},
    // ---- Data that differ between peers ----
    NamedAlgorithm{"qg_dsgdm", "unlike-data", "momentum of how the mixed model moves", "Lin 2021",
                   "[run]\nmode = \"mixing\"\n[train]\noptimizer = \"sgd\"\n"
                   "[mixing]\ntopology = \"ring\"\ncorrection = \"quasi_global\"\n"},
    NamedAlgorithm{"decentlam", "unlike-data", "momentum of the mixed gradient", "Yuan 2021",
                   "[run]\nmode = \"mixing\"\n[train]\noptimizer = \"sgd\"\n"
                   "[mixing]\ntopology = \"ring\"\ncorrection = \"decentlam\"\n"},
    NamedAlgorithm{"gradient_tracking", "unlike-data", "a vector follows the mean gradient",
                   "Nedic 2017",
                   "[run]\nmode = \"mixing\"\n[mixing]\ntopology = \"ring\"\n"
                   "correction = \"tracking\"\n"},
    NamedAlgorithm{"d2", "unlike-data", "what mixing added is added again", "Tang 2018",
                   "[run]\nmode = \"mixing\"\n[mixing]\ntopology = \"ring\"\nlazy = true\n"
                   "correction = \"d2\"\n"},
    // ---- Hostile peers ----
    NamedAlgorithm{"clipped_gossip", "guards", "neighbours move us only so far", "He 2022",
                   "[run]\nmode = \"mixing\"\n[mixing]\ntopology = \"random_regular\"\n"
                   "guard = \"self_centred_clip\"\n"},
};

}  // namespace

std::span<const NamedAlgorithm> named_algorithms() { return table; }

const NamedAlgorithm* named_algorithm(std::string_view name) {
  const auto* found = std::ranges::find(table, name, &NamedAlgorithm::name);
  return found == table.end() ? nullptr : found;
}

}  // namespace gv
