"""Clusters by name, and what their tools print, as fabrics.

- :mod:`~syncline.clusters.known`: clusters as data, each with its source;
- :mod:`~syncline.clusters.size`: the fabric of a number of their accelerators;
- :mod:`~syncline.clusters.printed`: a printed text, and errors that name its lines and columns;
- :mod:`~syncline.clusters.given`: rates and numbers that a user adds to what was printed;
- :mod:`~syncline.clusters.machine`: a machine of GPUs, network interfaces, PCIe switches and processors;
- :mod:`~syncline.clusters.smi`: reads ``nvidia-smi topo -m``;
- :mod:`~syncline.clusters.nccl_topology`: reads the file of ``NCCL_TOPO_DUMP_FILE``;
- :mod:`~syncline.clusters.nodes`: the fabric of one machine, or of several that a network joins;
- :mod:`~syncline.clusters.hostlists`: lists of hosts such as ``gpu[001-016]``;
- :mod:`~syncline.clusters.network`: a network of hosts and switches, its oversubscription, its rails, its fabric;
- :mod:`~syncline.clusters.regular`: a network as a family of fabrics, if it is regular;
- :mod:`~syncline.clusters.infiniband`: reads ``ibnetdiscover``;
- :mod:`~syncline.clusters.slurm`: reads Slurm's ``topology.conf``;
- :mod:`~syncline.clusters.slurm_yaml`: reads Slurm's ``topology.yaml``;
- :mod:`~syncline.clusters.simai`: reads topologies of SimAI;
- :mod:`~syncline.clusters.conversion`: recognises a text, and converts it into a fabric.
"""

from syncline.clusters.conversion import Conversion, convert, recognise
from syncline.clusters.given import Given

__all__ = ["Conversion", "Given", "convert", "recognise"]
