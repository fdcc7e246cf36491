# A cohort of four as a batch job of Nomad: nomad job run nomad.hcl
job "vine" {
  datacenters = ["*"]
  type        = "batch"
  group "peers" {
    count = 4
    network {
      port "control" { static = 7000 }
      port "lane" { static = 7001 }
    }
    reschedule {
      unlimited = true
    }
    task "peer" {
      driver       = "raw_exec"
      user         = "grapevine"
      kill_signal  = "SIGTERM"
      kill_timeout = "30s"
      config {
        command = "/shared/vine/grapevine"
        args = [
          "peer", "/shared/vine/run.toml", "--cohort", "/shared/vine/cohort",
          "--rank", "${NOMAD_ALLOC_INDEX}", "--ranks", "4",
          "--folder", "/shared/vine/rank-${NOMAD_ALLOC_INDEX}", "--resume",
          "--listen", "0.0.0.0:7000", "--advertise", "${attr.unique.network.ip-address}:7000", "--lane-port", "7001",
        ]
      }
    }
  }
}
